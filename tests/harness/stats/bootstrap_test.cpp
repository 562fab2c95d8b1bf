#include "harness/stats/bootstrap.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/base/errors.h"
#include "harness/stats/paired.h"
#include "harness/stats/sample.h"

namespace gradsync::stats {
namespace {

using testing::HasSubstr;

Launches launches_of(const std::vector<std::vector<std::vector<double>>>& steps) {
  Launches launches;
  for (const auto& launch : steps) {
    launches.emplace_back();
    for (const auto& block : launch) launches.back().push_back(block_sum(block));
  }
  return launches;
}

TEST(Bootstrap, ValueIsTheMeanOfAllSteps) {
  const Estimate estimate = bootstrap_mean(launches_of({{{1, 2, 3}, {4}}, {{10, 10}}}));
  EXPECT_DOUBLE_EQ(estimate.value, 5.0);
}

TEST(Bootstrap, LaunchesVaryAsAWhole) {
  // Inside a launch nothing varies. Two launches drawn twice give 10, 15 or 20 with probabilities
  // 1/4, 1/2, 1/4, so every percentile of interest is 10 or 20; drawing the four blocks or the
  // eight steps as if independent would end well inside.
  const Estimate estimate =
      bootstrap_mean(launches_of({{{10, 10}, {10, 10}}, {{20, 20}, {20, 20}}}));
  ASSERT_TRUE(estimate.ci95.has_value());
  EXPECT_EQ(estimate.resampled, Resampled::LaunchesThenBlocks);
  EXPECT_DOUBLE_EQ(estimate.ci95->lo, 10.0);
  EXPECT_DOUBLE_EQ(estimate.ci95->hi, 20.0);
}

TEST(Bootstrap, BlocksVaryInsideLaunches) {
  // Both launches have mean 15, so only the blocks inside them can move the mean.
  const Estimate estimate = bootstrap_mean(launches_of({{{10}, {20}}, {{10}, {20}}}));
  ASSERT_TRUE(estimate.ci95.has_value());
  EXPECT_LT(estimate.ci95->lo, 12.6);
  EXPECT_GT(estimate.ci95->hi, 17.4);
}

TEST(Bootstrap, OneLaunchVariesItsBlocksOnly) {
  const Estimate estimate = bootstrap_mean(launches_of({{{1}, {2}, {3}}}));
  ASSERT_TRUE(estimate.ci95.has_value());
  EXPECT_EQ(estimate.resampled, Resampled::Blocks);
  EXPECT_GE(estimate.ci95->lo, 1.0);
  EXPECT_LT(estimate.ci95->lo, 1.5);
  EXPECT_LE(estimate.ci95->hi, 3.0);
  EXPECT_GT(estimate.ci95->hi, 2.5);
}

TEST(Bootstrap, StepsOfOneBlockAreNotIndependent) {
  // One block of very different steps: its mean is all that is known, and it cannot be resampled.
  const Estimate estimate = bootstrap_mean(launches_of({{{1, 100, 3, 50}}}));
  EXPECT_FALSE(estimate.ci95.has_value());
  EXPECT_EQ(estimate.resampled, Resampled::Nothing);
  EXPECT_THAT(estimate.no_interval_because, HasSubstr("one block"));
}

TEST(Bootstrap, NothingMeasuredIsSaidAndAnEmptyLaunchIsIgnored) {
  EXPECT_THAT(bootstrap_mean({}).no_interval_because, HasSubstr("nothing was measured"));
  const Estimate estimate = bootstrap_mean(launches_of({{}, {{1}, {3}}}));
  EXPECT_EQ(estimate.resampled, Resampled::Blocks);
  EXPECT_DOUBLE_EQ(estimate.value, 2.0);
}

TEST(Bootstrap, TheSameSeedGivesTheSameInterval) {
  const Launches launches = launches_of({{{1}, {2}}, {{4}, {3}}, {{2}, {9}}});
  EXPECT_EQ(bootstrap_mean(launches).ci95, bootstrap_mean(launches).ci95);
  EXPECT_NE(bootstrap_mean(launches).ci95, bootstrap_mean(launches, {4000, 43}).ci95);
}

TEST(Bootstrap, MeetsStudentsIntervalWhereThatHolds) {
  // 40 launches of one block, values symmetric about 0: the classical interval is mean ± t s /
  // sqrt(n).
  Launches launches;
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    values.push_back((i - 19.5) / 10);
    launches.push_back({block_sum({values.back()})});
  }
  const Estimate estimate = bootstrap_mean(launches, {20000, 1});
  const double half = 2.0227 * *summarize(values)->sd / std::sqrt(40.0);
  EXPECT_NEAR(estimate.ci95->lo, -half, 0.03 * half);
  EXPECT_NEAR(estimate.ci95->hi, half, 0.03 * half);
}

TEST(Bootstrap, TailsMoveOutwardsForFewUnits) {
  // Phi(-sqrt(4 / 3) x 3.182446) and Phi(-sqrt(8 / 7) x 2.364624), from a table of the normal.
  EXPECT_NEAR(expanded_tail(4), 1.1903e-4, 1e-8);
  EXPECT_NEAR(expanded_tail(8), 5.7375e-3, 1e-7);
  EXPECT_NEAR(expanded_tail(100000), 0.025, 1e-5);
}

TEST(BootstrapRatio, IsTheRatioOfTheMeansOverAllSteps) {
  const Estimate ratio = bootstrap_ratio(launches_of({{{2, 4}, {6}}}), launches_of({{{1}, {3}}}));
  EXPECT_DOUBLE_EQ(ratio.value, 2.0);
}

TEST(BootstrapRatio, BothRunsVaryEachByItself) {
  // Means of the resampled numerator: 10, 15 or 20; of the denominator: 1, 1.5 or 2. The extremes
  // of the ratio are 20 / 1 and 10 / 2, which only independent draws of both can reach.
  const Estimate ratio =
      bootstrap_ratio(launches_of({{{10}}, {{20}}}), launches_of({{{1}}, {{2}}}));
  ASSERT_TRUE(ratio.ci95.has_value());
  EXPECT_DOUBLE_EQ(ratio.value, 10.0);
  EXPECT_DOUBLE_EQ(ratio.ci95->lo, 5.0);
  EXPECT_DOUBLE_EQ(ratio.ci95->hi, 20.0);
  EXPECT_EQ(ratio.resampled, Resampled::LaunchesThenBlocks);
}

TEST(BootstrapRatio, TheRunWithFewerUnitsSaysHowWideTheIntervalIs) {
  // Two blocks move the percentiles out to the extremes; ten would not reach 20 / 1.
  const std::vector<std::vector<double>> ten(10, {1});
  const Estimate ratio = bootstrap_ratio(launches_of({{{10}, {20}}}), launches_of({ten}));
  ASSERT_TRUE(ratio.ci95.has_value());
  EXPECT_DOUBLE_EQ(ratio.ci95->lo, 10.0);
  EXPECT_DOUBLE_EQ(ratio.ci95->hi, 20.0);
  const Estimate other = bootstrap_ratio(launches_of({ten}), launches_of({{{10}, {20}}}));
  ASSERT_TRUE(other.ci95.has_value());
  EXPECT_DOUBLE_EQ(other.ci95->lo, 0.05);
  EXPECT_DOUBLE_EQ(other.ci95->hi, 0.1);
}

TEST(BootstrapRatio, ARunOfOneLaunchVariesItsBlocksAndTheRatioSaysSo) {
  const Launches one = launches_of({{{1}, {2}, {3}}});
  const Launches several = launches_of({{{1}}, {{2}}, {{3}}});
  EXPECT_EQ(bootstrap_ratio(one, several).resampled, Resampled::Blocks);
  EXPECT_EQ(bootstrap_ratio(several, one).resampled, Resampled::Blocks);
  EXPECT_EQ(bootstrap_ratio(several, several).resampled, Resampled::LaunchesThenBlocks);
}

TEST(BootstrapRatio, OfASingleBlockHasNoInterval) {
  const Launches single = launches_of({{{1, 2, 3}}});
  const Launches several = launches_of({{{1}}, {{2}}});
  for (const Estimate& ratio :
       {bootstrap_ratio(single, several), bootstrap_ratio(several, single)}) {
    EXPECT_FALSE(ratio.ci95.has_value());
    EXPECT_EQ(ratio.resampled, Resampled::Nothing);
    EXPECT_THAT(ratio.no_interval_because, HasSubstr("one block"));
  }
  EXPECT_THAT(bootstrap_ratio(several, {}).no_interval_because, HasSubstr("nothing was measured"));
  EXPECT_THROW(bootstrap_ratio(several, launches_of({{{0}}, {{1}}})), InternalError);
}

TEST(PairedRatio, IsTheGeometricMean) {
  // 2 and 8 average to 4 as factors, not to 5.
  const Estimate estimate = paired_ratio({{0, 0, 2.0, 1.0}, {1, 0, 8.0, 1.0}});
  EXPECT_NEAR(estimate.value, 4.0, 1e-12);
  ASSERT_TRUE(estimate.ci95.has_value());
  EXPECT_NEAR(estimate.ci95->lo, 2.0, 1e-12);
  EXPECT_NEAR(estimate.ci95->hi, 8.0, 1e-12);
}

TEST(PairedRatio, WhatDisturbsBothCancels) {
  // The second launch ran on a machine half as fast: times double, the ratio stays.
  const Estimate estimate = paired_ratio({{0, 0, 2.2, 1.0}, {0, 1, 2.2, 1.0}, {1, 0, 4.4, 2.0}});
  EXPECT_NEAR(estimate.value, 2.2, 1e-12);
  EXPECT_NEAR(estimate.ci95->lo, 2.2, 1e-12);
  EXPECT_NEAR(estimate.ci95->hi, 2.2, 1e-12);
}

TEST(PairedRatio, OnePairHasAValueAndNoInterval) {
  const Estimate estimate = paired_ratio({{0, 0, 3.0, 2.0}});
  EXPECT_NEAR(estimate.value, 1.5, 1e-12);
  EXPECT_FALSE(estimate.ci95.has_value());
  EXPECT_THAT(estimate.no_interval_because, HasSubstr("one pair"));
  EXPECT_THAT(paired_ratio({}).no_interval_because, HasSubstr("no round"));
}

TEST(PairedRatio, RefusesATimeThatIsNotPositive) {
  EXPECT_THROW(paired_ratio({{0, 0, 1.0, 0.0}}), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
