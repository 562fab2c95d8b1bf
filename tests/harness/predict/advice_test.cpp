#include "harness/predict/advice.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "harness/plan/known_options.h"
#include "harness/plan/strategies.h"

namespace gradsync::predict {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

launch::Topology nodes_of(int nodes, int ranks_per_node) {
  launch::Topology topology;
  topology.name = "made";
  topology.nodes = nodes;
  topology.ranks_per_node = ranks_per_node;
  return topology;
}

TEST(Advice, NoWayIsThereTwiceAndEachRunsUnderItsWrapper) {
  const auto all = ways("model", nodes_of(2, 2), 4);
  for (auto way = all.begin(); way != all.end(); ++way) {
    EXPECT_EQ(std::find(way + 1, all.end(), *way), all.end());
    EXPECT_THAT(plan::strategies_under(way->wrapper), Contains(way->strategy));
    EXPECT_EQ(way->accumulation_steps, 4);
    EXPECT_EQ(plan::why_unknown(*way, plan::Prediction::Advice), "");
  }
  EXPECT_EQ(all.size(), 2 * 8 * 2 * 2 + (2 * 2 * 2 * 2 * 2 - 2 * 2 * 2));
}

TEST(Advice, OneMicroBatchHasNothingToLeaveOut) {
  for (const auto& way : ways("model", nodes_of(2, 1), 1)) {
    EXPECT_EQ(way.strategy, "baseline");
    EXPECT_TRUE(way.reshard_after_backward);
  }
}

TEST(Advice, HybridAxesNeedSeveralNodesOfSeveralRanks) {
  const auto is_hybrid = [](const plan::Cell& way) { return way.hybrid_shard; };
  EXPECT_TRUE(std::ranges::any_of(ways("model", nodes_of(2, 2), 1), is_hybrid));
  EXPECT_FALSE(std::ranges::any_of(ways("model", nodes_of(4, 1), 1), is_hybrid));
  EXPECT_FALSE(std::ranges::any_of(ways("model", nodes_of(1, 4), 1), is_hybrid));
}

TEST(Advice, SaysWhatAScriptHasToChange) {
  plan::Cell way;
  EXPECT_THAT(script_changes(way, nodes_of(2, 1)), IsEmpty());
  way.strategy = "no_sync";
  way.bucket_cap_bytes = 50 << 20;
  way.compression = "bf16";
  EXPECT_THAT(script_changes(way, nodes_of(2, 1)),
              ElementsAre("DistributedDataParallel(bucket_cap_mb=50)",
                          "model.register_comm_hook(None, bf16_compress_hook)",
                          HasSubstr("forward and backward")));
  EXPECT_THAT(open_questions(way), ElementsAre(HasSubstr("casting to bf16")));
  way = {};
  way.wrapper = "fsdp";
  way.strategy = "no_sync";
  way.hybrid_shard = true;
  way.reshard_after_backward = false;
  EXPECT_THAT(script_changes(way, nodes_of(2, 4)),
              ElementsAre(HasSubstr("fully_shard(module)"), "mesh=init_device_mesh(device, (2, 4))",
                          HasSubstr("set_requires_gradient_sync"),
                          HasSubstr("set_reshard_after_backward")));
}

}  // namespace
}  // namespace gradsync::predict
