#include <gmock/gmock.h>

#include "harness/watch/judge/steps/job_counts.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kBuckets;
using gradsync::test::MadeJob;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Steps of two micro-batches, of which the last one synchronizes.
MadeJob steps_of(int rank, int count) {
  MadeJob job(rank);
  job.wrap();
  for (int i = 0; i < count; ++i) {
    job.forward(1, "no_sync").backward().forward().reducing().optimizer();
  }
  return job;
}

TEST(UsualCounts, AreThoseOfMostSteps) {
  MadeJob odd = steps_of(1, 4);
  odd.forward().reducing().collective("all_gather", 8).optimizer();
  const UsualCounts usual = usual_counts({odd.process(), steps_of(0, 4).process()});
  EXPECT_EQ(usual.unsteady, "");
  EXPECT_EQ(usual.counts.world_size, 2);
  ASSERT_THAT(usual.counts.ranks, SizeIs(1));
  const gate::RankCounts& both = usual.counts.ranks[0];
  EXPECT_THAT(both.ranks, ElementsAre(0, 1));
  EXPECT_EQ(both.syncs_per_step, 1);
  EXPECT_THAT(both.micro_batches,
              ElementsAre(gate::MicroBatchCounts{1, {}},
                          gate::MicroBatchCounts{1, {{"all_reduce", kBucketBytes, kBuckets}}}));
  EXPECT_THAT(both.outside, IsEmpty());
}

TEST(UsualCounts, HoldThePeakOfTheWholeJob) {
  RankEvents first = steps_of(0, 4).process();
  RankEvents second = steps_of(1, 4).process();
  first.peak.bytes = second.peak.bytes = 700;
  EXPECT_THAT(usual_counts({first, second}).counts.ranks, SizeIs(1));
  second.peak.bytes = 701;
  const gate::HeldCounts counts = usual_counts({first, second}).counts;
  ASSERT_THAT(counts.ranks, SizeIs(2)) << "ranks that hold the same stand together";
  EXPECT_EQ(counts.ranks[1].peak_allocated_bytes, Known<std::int64_t>(701));
}

TEST(UsualCounts, OfStepsThatAreAllOthersAreChance) {
  MadeJob job = steps_of(0, 1);
  for (int bytes : {8, 16, 24, 32}) {
    job.forward(1, "no_sync").backward().forward().reducing().collective("all_gather", bytes);
    job.optimizer();
  }
  test::expect_phrases("watch/judge", {usual_counts({job.process()}).unsteady});
}

TEST(UsualCounts, OfAJobWithoutStepsThereAreNone) {
  EXPECT_THAT(usual_counts({}).counts.ranks, IsEmpty());
  EXPECT_THAT(usual_counts({MadeJob().wrap().process()}).counts.ranks, IsEmpty());
}

}  // namespace
}  // namespace gradsync::watch
