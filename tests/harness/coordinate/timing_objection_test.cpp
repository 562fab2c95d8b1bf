#include "harness/coordinate/timing_objection.h"

#include <gtest/gtest.h>

#include "tests/harness/report/golden.h"

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
  gradsync::test::expect_phrases("coordinate", {timing_objection(computed(), kTwoCores, 2),
                                                timing_objection(computed(), {8, 8, 0.5, 2}, 1)});
  // Each of two tasks has a container of its own, with one rank in it.
  EXPECT_EQ(timing_objection(computed(), {8, 8, 1.0, 1}, 1), "");
}

TEST(TimingObjection, CountsHardwareThreadsThatShareACore) {
  const Cores hyperthreads{8, 4, std::nullopt, 2};
  EXPECT_EQ(timing_objection(computed(), hyperthreads, 1), "");
  EXPECT_EQ(timing_objection(computed(), hyperthreads, 4), "");  // two on each core
  gradsync::test::expect_phrases("coordinate", {timing_objection(computed(), hyperthreads, 3)});
}

TEST(TimingObjection, NamesTheRankThatWasHeldLongest) {
  results::TrialRecord trial = computed();
  trial.ranks[0].throttled_s = 0.02;
  trial.ranks[1].throttled_s = 0.31;
  const std::string held = timing_objection(trial, kTwoCores, 1);
  gradsync::test::expect_phrases("coordinate", {held});
  trial.model_info->paced = true;
  EXPECT_EQ(timing_objection(trial, {1, 1, 0.5, 2}, 1), held);
}

TEST(TimingObjection, NamesTheRankThatWaitedLongestForItsCore) {
  results::TrialRecord trial = computed();
  trial.ranks[0].queue_wait_s = 0.47;
  trial.ranks[1].queue_wait_s = 0.12;
  gradsync::test::expect_phrases("coordinate", {timing_objection(trial, kTwoCores, 1)});
  Cores shared = kTwoCores;
  shared.is_shared_on_purpose = true;
  EXPECT_EQ(timing_objection(trial, shared, 1), "");
  trial.model_info->paced = true;
  EXPECT_EQ(timing_objection(trial, kTwoCores, 1), "");
}

}  // namespace
}  // namespace gradsync::coordinate
