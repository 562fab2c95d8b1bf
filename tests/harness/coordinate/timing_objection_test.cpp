#include "harness/coordinate/timing_objection.h"

#include <gtest/gtest.h>

namespace gradsync::coordinate {
namespace {

// Two ranks that computed for a second each.
results::TrialRecord computed() {
  results::TrialRecord trial;
  trial.model_info.emplace().paced = false;
  for (int rank = 0; rank < 2; ++rank) {
    results::RankRecord& record = trial.ranks.emplace_back();
    record.rank = rank;
    record.block_s = 1;
    record.throttled_s = 0;
    record.queue_wait_s = 0.004;
  }
  return trial;
}

constexpr Cores kTwoCores{2, 2, std::nullopt, 2};

TEST(TimingObjection, IsNoneOnCoresOfTheirOwn) {
  EXPECT_EQ(timing_objection(computed(), kTwoCores, 1), "");
  EXPECT_EQ(timing_objection(computed(), {2, 2, 2.0, 2}, 1), "");
  results::TrialRecord older = computed();
  for (results::RankRecord& rank : older.ranks) rank.throttled_s = rank.queue_wait_s = std::nullopt;
  EXPECT_EQ(timing_objection(older, kTwoCores, 1), "");
}

TEST(TimingObjection, CountsThreadsAgainstCoresAndQuota) {
  EXPECT_EQ(timing_objection(computed(), kTwoCores, 2), "4 compute threads share 2 cores");
  EXPECT_EQ(timing_objection(computed(), {8, 8, 0.5, 2}, 1),
            "2 compute threads share a CPU quota of 0.5 cores (control group)");
  // Each of two tasks has a container of its own, with one rank in it.
  EXPECT_EQ(timing_objection(computed(), {8, 8, 1.0, 1}, 1), "");
}

TEST(TimingObjection, CountsHardwareThreadsThatShareACore) {
  const Cores hyperthreads{8, 4, std::nullopt, 2};
  EXPECT_EQ(timing_objection(computed(), hyperthreads, 1), "");
  EXPECT_EQ(timing_objection(computed(), hyperthreads, 4), "");  // two on each core
  EXPECT_EQ(timing_objection(computed(), hyperthreads, 3),
            "of 6 compute threads on 4 cores some share one, and others wait for them");
}

TEST(TimingObjection, NamesTheRankThatWasHeldLongest) {
  results::TrialRecord trial = computed();
  trial.ranks[0].throttled_s = 0.02;
  trial.ranks[1].throttled_s = 0.31;
  const char* held =
      "the control group of rank 1 held it for up to 0.31 s of 1 s: its CPU quota was used up";
  EXPECT_EQ(timing_objection(trial, kTwoCores, 1), held);
  trial.model_info->paced = true;
  EXPECT_EQ(timing_objection(trial, {1, 1, 0.5, 2}, 1), held);
}

TEST(TimingObjection, NamesTheRankThatWaitedLongestForItsCore) {
  results::TrialRecord trial = computed();
  trial.ranks[0].queue_wait_s = 0.47;
  trial.ranks[1].queue_wait_s = 0.12;
  EXPECT_EQ(timing_objection(trial, kTwoCores, 1),
            "rank 0 waited 47 % of its time for a core that other processes used");
  Cores shared = kTwoCores;
  shared.is_shared_on_purpose = true;
  EXPECT_EQ(timing_objection(trial, shared, 1), "");
  trial.model_info->paced = true;
  EXPECT_EQ(timing_objection(trial, kTwoCores, 1), "");
}

}  // namespace
}  // namespace gradsync::coordinate
