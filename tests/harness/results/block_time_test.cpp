// The elapsed time of a trial: the longest block of any rank, not a sum of maxima.
#include "harness/results/block_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gradsync::results {
namespace {

RankRecord rank_with(int number, std::vector<double> step_s, double block_s) {
  RankRecord rank;
  rank.rank = number;
  rank.step_s = std::move(step_s);
  rank.block_s = block_s;
  return rank;
}

TrialRecord trial_of(std::vector<RankRecord> ranks) {
  TrialRecord trial;
  trial.ranks = std::move(ranks);
  return trial;
}

// Each rank is the slower one once: step by step 3 + 3 = 6 s, of which only 5 passed.
TEST(BlockTime, IsOfTheRankWhoseBlockTookLongest) {
  const TrialRecord trial = trial_of({rank_with(0, {1, 3}, 4), rank_with(1, {3, 2}, 5)});
  const auto time = block_time(trial);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->rank->rank, 1);
  EXPECT_DOUBLE_EQ(time->elapsed_s, 5);
  EXPECT_DOUBLE_EQ(time->mean_step_s(), 2.5);
}

TEST(BlockTime, IsOfRankZeroAsPublished) {
  const TrialRecord trial = trial_of({rank_with(0, {1, 3}, 4), rank_with(1, {3, 2}, 5)});
  EXPECT_DOUBLE_EQ(block_time(trial, true)->elapsed_s, 4);
  EXPECT_FALSE(block_time(trial_of({rank_with(1, {1}, 1)}), true));
}

TEST(BlockTime, IsTheWholeBlockAndSaysWhatNoStepHas) {
  const TrialRecord trial = trial_of({rank_with(0, {1, 1}, 2.5)});
  const auto time = block_time(trial);
  EXPECT_DOUBLE_EQ(time->mean_step_s(), 1.25);
  EXPECT_DOUBLE_EQ(time->unaccounted_s(), 0.5);
}

TEST(BlockTime, OfARecordWithoutABlockIsTheSumOfItsSteps) {
  for (const double none : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
    const TrialRecord trial = trial_of({rank_with(0, {1, 2}, none)});
    EXPECT_DOUBLE_EQ(block_time(trial)->elapsed_s, 3);
    EXPECT_DOUBLE_EQ(block_time(trial)->unaccounted_s(), 0);
  }
}

TEST(BlockTime, IsNotKnownOfStepsWithoutATime) {
  EXPECT_FALSE(block_time(trial_of({})));
  EXPECT_FALSE(block_time(trial_of({rank_with(0, {}, 1)})));
  EXPECT_FALSE(block_time(trial_of({rank_with(0, {1, std::nan("")}, 1)})));
}

}  // namespace
}  // namespace gradsync::results
