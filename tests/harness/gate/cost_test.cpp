#include "harness/gate/cost.h"
#include "tests/harness/report/golden.h"

#include <gmock/gmock.h>

namespace gradsync::gate {
namespace {

// A pass is 50 ms of steps: 5 of 10 ms, 2 of 25 ms, and 5 ms to switch. So a turn, 2 passes of 3
// arms, takes 6 x 55 ms = 0.33 s, and 1.32 s of all rows. A start warms up 3 steps, delays the
// first turn by 3.5 on average, and times one: 7.5 steps and a switch, in each of 3 arms.
const std::vector<LaunchCost> kLaunches = {{4.0, 0.005, 3, {0.010, 0.010}},
                                           {6.0, 0.005, 3, {0.010, 0.025}}};
constexpr double kTurnS = 4 * 0.33;
constexpr double kWarmUpS = 3 * (3 * 0.080 + 0.1925);
constexpr double kStartS = 10 + kWarmUpS;

Settings tenth_of_a_second() {
  Settings settings;
  settings.block_s = 0.1;
  return settings;
}

TEST(GateCost, PassesFillTheirShareOfABlock) {
  const Settings settings = tenth_of_a_second();
  EXPECT_EQ(pass_steps(settings, 0.010), 5);
  EXPECT_EQ(pass_steps(settings, 0.011), 5);
  EXPECT_EQ(pass_steps(settings, 0.025), 2);
  EXPECT_EQ(pass_steps(settings, 2.0), 2);
}

TEST(GateCost, IsStartsAndTurnsByHand) {
  const Settings settings = tenth_of_a_second();
  EXPECT_NEAR(turns_s(kLaunches, settings, 30), 3 * kStartS + 30 * kTurnS, 1e-9);
  EXPECT_EQ(turns_s(kLaunches, settings, 0), 0);
  // 10 starts, of the row of 25 ms and one of the others.
  EXPECT_NEAR(confirmation_s(kLaunches, settings),
              10 * (10 + 3 * (0.080 + 0.1925)) + 100 * 2 * 0.33, 1e-9);
}

TEST(GateCost, LiesBetweenWhereAllPassAndWhereNoneEnds) {
  const Settings settings = tenth_of_a_second();
  const Forecast all = forecast(kLaunches, settings);
  EXPECT_EQ(all.rows, 4U);
  EXPECT_NEAR(all.first_s, turns_s(kLaunches, settings, 20), 1e-9);
  EXPECT_NEAR(all.least_s, turns_s(kLaunches, settings, 50), 1e-9);
  EXPECT_NEAR(all.most_s, turns_s(kLaunches, settings, 330) + all.confirmation_s, 1e-9);
}

TEST(GateCost, WhatCannotBeFoundNeedsNoConfirmation) {
  Settings settings = tenth_of_a_second();
  settings.looks = {{50, 0.0, 1.0}};
  EXPECT_EQ(forecast(kLaunches, settings).confirmation_s, 0);
}

TEST(GateCost, ReadsInOneLine) {
  const Settings settings = tenth_of_a_second();
  test::expect_phrases("gate", {to_text(forecast(kLaunches, settings), settings)});
}

}  // namespace
}  // namespace gradsync::gate
