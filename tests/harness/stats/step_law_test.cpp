#include "harness/stats/step_law.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

// T = 0.25 + 2 m + 0.5 s, exactly.
StepPoint exact(double micro_batches, double syncs) {
  return {micro_batches, syncs, 0.25 + 2 * micro_batches + 0.5 * syncs};
}

// Baseline and no_sync at each of these accumulations.
std::vector<StepPoint> sweep(const std::vector<double>& accumulations) {
  std::vector<StepPoint> points;
  for (const double m : accumulations) {
    points.push_back(exact(m, m));
    points.push_back(exact(m, 1));
  }
  return points;
}

void expect_exact(const StepLaw& law) {
  EXPECT_NEAR(law.fixed_s, 0.25, 1e-9);
  EXPECT_NEAR(law.micro_batch_s, 2, 1e-9);
  EXPECT_NEAR(law.sync_s, 0.5, 1e-9);
}

TEST(StepLaw, TwoStrategiesTellThreeCostsApart) {
  const auto law = fit_step_law(sweep({1, 2, 4}));
  ASSERT_TRUE(law.has_value());
  expect_exact(*law);
  EXPECT_NEAR(law->step_s({.micro_batches = 32, .syncs = 1}), 64.75, 1e-7);
}

TEST(StepLaw, AnErrorIsAShareOfWhatWasMeasured) {
  const StepLaw law{.fixed_s = 1, .micro_batch_s = 1, .sync_s = 1};
  EXPECT_DOUBLE_EQ(law.error({.micro_batches = 1, .syncs = 1, .step_s = 2}), 0.5);
  EXPECT_DOUBLE_EQ(law.error({.micro_batches = 1, .syncs = 1, .step_s = 4}), -0.25);
}

// (1, 1) was measured twice, as 1 and as 3 seconds; the other two points can be met whatever the
// law says there. So it says the x with the least (x - 1)^2 + (x / 3 - 1)^2: x = 1.2, where
// absolute errors would give 2. From there to (8, 1) it is 14 = 7 c, and on to (8, 8) 35 = 7 a.
TEST(StepLaw, ALongStepCountsNoMoreThanAShortOne) {
  const double f = 1.2 - 7;
  const std::vector<StepPoint> points{{1, 1, 1}, {1, 1, 3}, {8, 1, f + 21}, {8, 8, f + 56}};
  const auto law = fit_step_law(points);
  ASSERT_TRUE(law.has_value());
  EXPECT_NEAR(law->step_s(points[0]), 1.2, 1e-9);
  EXPECT_NEAR(law->micro_batch_s, 2, 1e-9);
  EXPECT_NEAR(law->sync_s, 5, 1e-9);
}

TEST(StepLaw, OneStrategyAloneTellsNothingApart) {
  EXPECT_FALSE(fit_step_law({}).has_value());
  EXPECT_FALSE(fit_step_law({exact(1, 1), exact(2, 1)}).has_value());
  EXPECT_FALSE(fit_step_law({exact(1, 1), exact(2, 1), exact(4, 1), exact(8, 1)}).has_value());
  EXPECT_FALSE(fit_step_law({exact(1, 1), exact(2, 2), exact(4, 4), exact(8, 8)}).has_value());
  EXPECT_TRUE(fit_step_law({exact(1, 1), exact(2, 2), exact(4, 1)}).has_value());
}

TEST(StepLaw, EverySecondAccumulationIsHeldOutWhateverTheOrder) {
  const std::vector<StepPoint> points{exact(8, 1), exact(1, 1), exact(4, 4), exact(2, 1),
                                      exact(8, 8)};
  EXPECT_THAT(held_out(points), testing::ElementsAre(true, false, false, true, true));
}

TEST(StepLaw, WhatIsHeldOutDoesNotTouchTheFit) {
  auto points = sweep({1, 2, 4, 8});
  points[7].step_s *= 2;  // m = 8 is held out
  const auto checked = fit_and_check_step_law(points);
  ASSERT_TRUE(checked.has_value());
  expect_exact(checked->law);
  EXPECT_THAT(checked->held_out,
              testing::ElementsAre(false, false, true, true, false, false, true, true));
  EXPECT_NEAR(checked->law.error(points[7]), -0.5, 1e-9);
}

TEST(StepLaw, WherePointsAreFewAllAreFitted) {
  const auto checked = fit_and_check_step_law(sweep({2, 4}));
  ASSERT_TRUE(checked.has_value());
  expect_exact(checked->law);
  EXPECT_THAT(checked->held_out, testing::Each(false));
  EXPECT_FALSE(fit_and_check_step_law({exact(2, 1), exact(4, 1)}).has_value());
}

TEST(StepLaw, TimesArePositive) {
  EXPECT_THROW(fit_step_law({{1, 1, 0}}), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
