#include "harness/watch/judge/steps/job_counts.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kBuckets;
using gradsync::test::MadeJob;
using results::TimelineEvent;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

// Two steps: one micro-batch, then two of which the last one synchronizes, and a logged loss.
RankEvents two_steps(int rank) {
  MadeJob job(rank);
  job.wrap().forward().reducing().optimizer();
  job.forward(1, "no_sync")
      .backward()
      .forward_with_buffers()
      .reducing()
      .collective("all_reduce", 4);
  return job.optimizer().process();
}

auto event(const char* op, std::int64_t bytes, int micro_batch) {
  return AllOf(Field(&TimelineEvent::op, op), Field(&TimelineEvent::bytes, bytes),
               Field(&TimelineEvent::micro_batch, micro_batch));
}

TEST(CountStep, PutsCollectivesIntoTheirMicroBatches) {
  results::TrialRecord trial;
  count_step({two_steps(0), two_steps(1)}, 1, "the baseline", trial);
  ASSERT_THAT(trial.ranks, SizeIs(2));
  EXPECT_EQ(trial.ranks[1].rank, 1);
  for (const results::RankRecord& rank : trial.ranks) {
    EXPECT_THAT(
        rank.timeline_events,
        ElementsAre(event("all_reduce", 4, -1), event("broadcast", 64, 1),
                    event("all_reduce", kBucketBytes, 1), event("all_reduce", kBucketBytes, 1)));
  }
  const results::OpCounts& sums = trial.ledger.per_step;
  EXPECT_EQ(sums.at("all_reduce"), (results::OpCount{kBuckets + 1, kBuckets * kBucketBytes + 4}));
  EXPECT_EQ(sums.at("broadcast"), (results::OpCount{1, 64}));
}

TEST(CountStep, LeavesOutWhatIsOfOtherSteps) {
  results::TrialRecord trial;
  count_step({two_steps(0)}, 0, "the baseline", trial);
  EXPECT_THAT(trial.ranks[0].timeline_events, ElementsAre(event("all_reduce", kBucketBytes, 0),
                                                          event("all_reduce", kBucketBytes, 0)));
}

TEST(CountStep, RefusesSeveralOptimizersInOneStep) {
  MadeJob job;
  job.wrap();
  for (int step = 0; step < 3; ++step) job.forward().reducing().optimizer().optimizer();
  results::TrialRecord trial;
  EXPECT_THAT([&] { count_step({job.process()}, 1, "the candidate", trial); },
              ThrowsMessage<ConfigError>(HasSubstr("the candidate: several optimizers step")));
}

TEST(CountStep, RefusesAStepThatIsNotThere) {
  results::TrialRecord trial;
  EXPECT_THROW(count_step({two_steps(0)}, 2, "the candidate", trial), ConfigError);
}

TEST(FirstSteps, CutWhatCameLater) {
  const auto cut = first_steps({two_steps(0)}, 1);
  results::TrialRecord trial;
  EXPECT_THROW(count_step(cut, 1, "the baseline", trial), ConfigError);
  EXPECT_THAT(trial.ranks, IsEmpty());
  count_step(cut, 0, "the baseline", trial);
  EXPECT_THAT(trial.ranks[0].timeline_events, SizeIs(kBuckets));
  EXPECT_EQ(first_steps({two_steps(0)}, 2)[0].events.size(), two_steps(0).events.size());
}

TEST(FirstSteps, HeldNoMoreThanUntilThen) {
  MadeJob job;
  job.wrap();
  for (const std::int64_t bytes : {100, 120, 500})
    job.forward().reducing().optimizer_holding(bytes);
  const auto cut = first_steps({job.process()}, 2);
  EXPECT_EQ(cut[0].peak.bytes, Known<std::int64_t>(120));
  EXPECT_EQ(first_steps({job.process()}, 3)[0].peak.bytes, Known<std::int64_t>(500));
  results::TrialRecord trial;
  count_step({job.process()}, 1, "the baseline", trial);
  EXPECT_EQ(trial.ranks[0].peak_allocated_bytes, 120);
}

TEST(CountStep, APeakUnderFsdpIsNotHeld) {
  MadeJob job;
  job.wrapper = "fully_shard";
  for (int i = 0; i < 2; ++i) job.forward().reducing().optimizer_holding(100);
  results::TrialRecord trial;
  count_step({job.process()}, 1, "the baseline", trial);
  EXPECT_FALSE(trial.ranks[0].peak_allocated_bytes.has_value());
  EXPECT_EQ(first_steps({job.process()}, 2)[0].peak.bytes, Known<std::int64_t>(100));
}

TEST(CountStep, APeakThatNobodyCountedIsNotKnown) {
  results::TrialRecord trial;
  count_step({two_steps(0)}, 1, "the baseline", trial);
  EXPECT_FALSE(trial.ranks[0].peak_allocated_bytes.has_value());
  EXPECT_EQ(first_steps({two_steps(0)}, 1)[0].peak.bytes.why_not(), kNotCounted);
}

}  // namespace
}  // namespace gradsync::watch
