// What a step should communicate, by hand.
#include "harness/sync/collectives.h"

#include <gtest/gtest.h>

namespace gradsync::test {
namespace {

using sync::declared_collectives;

using Sizes = std::vector<std::int64_t>;

TEST(Collectives, FullShardGathersTwiceAndReducesWhereItSyncs) {
  sync::FsdpTraffic traffic{{10, 20, 0}, {{1, 100, 0}, {2, 200, 0}}, true, true};
  const auto step = declared_collectives(traffic, {false, true});
  EXPECT_EQ(step[0].at("all_gather"), (Sizes{10, 1, 2, 2, 1}));
  EXPECT_FALSE(step[0].contains("reduce_scatter"));
  EXPECT_EQ(step[1].at("all_gather"), (Sizes{10, 1, 2, 2, 1}));
  EXPECT_EQ(step[1].at("reduce_scatter"), (Sizes{200, 100, 20}));
}

TEST(Collectives, KeepingParametersSavesGathers) {
  sync::FsdpTraffic traffic{{10, 20, 5}, {{1, 100, 50}, {2, 200, 60}}, false, false};
  auto step = declared_collectives(traffic, {false, true});
  EXPECT_EQ(step[0].at("all_gather"), (Sizes{10, 1, 2}));
  EXPECT_FALSE(step[1].contains("all_gather"));
  EXPECT_EQ(step[1].at("all_reduce"), (Sizes{60, 50, 5}));
  traffic.reshard_after_forward = true;
  step = declared_collectives(traffic, {false, true});
  EXPECT_EQ(step[0].at("all_gather"), (Sizes{10, 1, 2, 2, 1}));
  EXPECT_EQ(step[1].at("all_gather"), (Sizes{2, 1}));
}

// Gathered ahead by the unit after it, as fully_shard gathers: by none in vain but the next one.
TEST(Collectives, AUnitWithoutBackwardIsGatheredAheadInVain) {
  sync::FsdpTraffic traffic{
      {10, 20, 0}, {{3, 0, 0, false}, {1, 0, 0, false}, {2, 200, 0}}, true, true};
  auto step = declared_collectives(traffic, {false, true});
  for (const sync::Collectives& micro_batch : step) {
    EXPECT_EQ(micro_batch.at("all_gather"), (Sizes{10, 3, 1, 2, 2, 1}));
  }
  EXPECT_EQ(step[1].at("reduce_scatter"), (Sizes{200, 20}));
  traffic.reshard_after_backward = false;
  step = declared_collectives(traffic, {false, true});
  EXPECT_EQ(step[1].at("all_gather"), (Sizes{3, 1, 2, 1}));  // root and last are still there
  traffic.reshard_after_forward = false;
  step = declared_collectives(traffic, {false, true});
  EXPECT_EQ(step[0].at("all_gather"), (Sizes{10, 3, 1, 2}));
  EXPECT_FALSE(step[1].contains("all_gather"));
}

TEST(Collectives, WithoutPrefetchAUnitWithoutBackwardIsGatheredForForwardAlone) {
  sync::FsdpTraffic traffic{{10, 20, 0}, {{1, 0, 0, false}, {2, 200, 0}}, true, true, false};
  EXPECT_EQ(declared_collectives(traffic, {true})[0].at("all_gather"), (Sizes{10, 1, 2, 2}));
}

// The root, which holds the loss, gathers the last unit ahead.
TEST(Collectives, WhereAllUnitsAreFrozenTheLastIsGatheredAhead) {
  const sync::FsdpTraffic traffic{{10, 20, 0}, {{1, 0, 0, false}, {2, 0, 0, false}}, true, true};
  EXPECT_EQ(declared_collectives(traffic, {true})[0].at("all_gather"), (Sizes{10, 1, 2, 2}));
}

TEST(Collectives, SyncBatchNormsAreInEveryMicroBatchAndBackwardsInReverse) {
  sync::DdpTraffic traffic;
  traffic.bucket_bytes = {100, 200};
  traffic.batch_norm = sync::batch_norm_collectives({3, 10}, 4);
  const auto step = declared_collectives(traffic, {false, true});
  for (const sync::Collectives& micro_batch : step) {
    // From each of 4 ranks two numbers per channel and a count; two sums per channel; 4 bytes each.
    EXPECT_EQ(micro_batch.at("batch_norm_all_gather"), (Sizes{4 * 7 * 4, 4 * 21 * 4}));
    EXPECT_EQ(micro_batch.at("batch_norm_all_reduce"), (Sizes{20 * 4, 6 * 4}));
  }
  EXPECT_FALSE(step[0].contains("all_reduce"));
  EXPECT_EQ(step[1].at("all_reduce"), (Sizes{100, 200}));
  EXPECT_TRUE(sync::batch_norm_collectives({3, 10}, 1).empty());
  EXPECT_TRUE(sync::batch_norm_collectives({}, 4).empty());
}

TEST(Collectives, AStageReceivesAndSendsOnTheWayForwardAndBack) {
  const auto middle = declared_collectives(sync::StageTraffic{10, 20}, 2);
  ASSERT_EQ(middle.size(), 2U);
  EXPECT_EQ(middle[1].at("recv"), (Sizes{10, 20}));  // activations, then gradients
  EXPECT_EQ(middle[1].at("send"), (Sizes{20, 10}));
  const auto first = declared_collectives(sync::StageTraffic{0, 20}, 1);
  EXPECT_EQ(first[0].at("send"), (Sizes{20}));
  EXPECT_EQ(first[0].at("recv"), (Sizes{20}));
  EXPECT_TRUE(declared_collectives(sync::StageTraffic{}, 1)[0].empty());
}

}  // namespace
}  // namespace gradsync::test
