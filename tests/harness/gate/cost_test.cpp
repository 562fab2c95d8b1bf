#include "harness/gate/cost.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;

// One turn of a row: three arms, 21 steps of 10 ms each, 0.63 s. Two launches of two rows.
const std::vector<LaunchCost> kLaunches = {{4.0, {0.010, 0.010}}, {6.0, {0.010, 0.020}}};

TEST(GateCost, IsStartsAndTurnsByHand) {
  const Forecast all = forecast(kLaunches, Settings{}, std::nullopt);
  EXPECT_EQ(all.rows, 4U);
  EXPECT_EQ(all.looks, 3U);
  // 6 starts of 10 s; 24 turns of 5 x 0.63 s.
  EXPECT_NEAR(all.looks_s, 60 + 24 * 5 * 0.63, 1e-9);
  // The row of 20 ms: 4 starts of its launch, 16 turns of 1.26 s.
  EXPECT_NEAR(all.confirmation_s, 24 + 16 * 1.26, 1e-9);
}

TEST(GateCost, AsManyLooksAsFit) {
  const Forecast all = forecast(kLaunches, Settings{}, std::nullopt);
  EXPECT_EQ(forecast(kLaunches, Settings{}, all.total_s()).looks, 3U);
  const Forecast two = forecast(kLaunches, Settings{}, all.total_s() - 0.1);
  EXPECT_EQ(two.looks, 2U);
  EXPECT_NEAR(two.looks_s, 40 + 16 * 5 * 0.63, 1e-9);
  // One look cannot find these rows slower, so it needs no confirmation.
  const Forecast one = forecast(kLaunches, Settings{}, 20 + 8 * 5 * 0.63 + 0.001);
  EXPECT_EQ(one.looks, 1U);
  EXPECT_EQ(one.confirmation_s, 0);
}

TEST(GateCost, TooLittleForOneLookSaysWhatItNeeds) {
  try {
    forecast(kLaunches, Settings{}, 45);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "--time-budget: got 45s, expected at least 46s: 4 rows, 8 turns each in 2 "
                 "starts: at most 46s");
  }
}

TEST(GateCost, ReadsInOneLine) {
  const Settings settings;
  EXPECT_EQ(to_text(forecast(kLaunches, settings, std::nullopt), settings),
            "4 rows, 24 turns each in 6 starts: at most 3m00s, of which 45s to confirm one row");
}

}  // namespace
}  // namespace gradsync::gate
