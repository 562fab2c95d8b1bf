#include "harness/watch/judge/axes.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/watched.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;

Axis axis(GroupRole role, const std::string& name, std::vector<int> ranks = {}) {
  Axis made;
  made.role = role;
  made.name = name;
  made.ranks = std::move(ranks);
  return made;
}

TEST(Axes, OfAHybridJob) {
  const Watched watched = summarize({gradsync::test::hybrid_job(0).process()});
  const std::vector<Axis>& axes = watched.typical->axes;
  ASSERT_EQ(axes.size(), 2U);
  EXPECT_EQ(axes[0].role, GroupRole::Shard);
  EXPECT_EQ(sum_of(axes[0].ideal, "reduce_scatter").count, 2);
  EXPECT_EQ(axes[1].role, GroupRole::Replicate);
  EXPECT_THAT(axes[1].ranks, ElementsAre(0, 2));
  EXPECT_EQ(sum_of(axes[1].collectives, "all_reduce"), (OpSum{8, 4000}));
  EXPECT_EQ(sum_of(axes[1].excess, "all_reduce"), (OpSum{6, 3000}));
}

TEST(Axes, OfTheSameKindAreToldApart) {
  const std::vector<Axis> axes{axis(GroupRole::Shard, "dp_shard"), axis(GroupRole::Shard, ""),
                               axis(GroupRole::DataParallel, "dp")};
  EXPECT_THAT(labels_of(axes), ElementsAre("shard dp_shard", "shard 2", "data parallel"));
}

TEST(Axes, AreSaidWhereThereAreSeveral) {
  const Axis shard = axis(GroupRole::Shard, "dp_shard", {0, 1});
  const Axis alone = axis(GroupRole::Alone, "dp_replicate", {0});
  EXPECT_EQ(axes_sentence({shard, alone}),
            "shard: dp_shard, ranks 0 1; alone: dp_replicate, rank 0");
  EXPECT_EQ(axes_sentence({shard}), "");
  EXPECT_EQ(axes_sentence({axis(GroupRole::Unknown, ""), shard}), "shard: dp_shard, ranks 0 1");
}

}  // namespace
}  // namespace gradsync::watch
