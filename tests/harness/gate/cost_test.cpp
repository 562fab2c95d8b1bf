#include "harness/gate/cost.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;

// A pass is 50 ms of steps: 5 of 10 ms, 2 of 25 ms, one more to settle, and 5 ms to switch. So a
// turn, 4 passes of 3 arms, takes 12 x 65 ms = 0.78 s or 12 x 80 ms = 0.96 s, and 3.3 s of all
// rows.
const std::vector<LaunchCost> kLaunches = {{4.0, 0.005, {0.010, 0.010}},
                                           {6.0, 0.005, {0.010, 0.025}}};

Settings fifth_of_a_second() {
  Settings settings;
  settings.block_s = 0.2;
  return settings;
}

TEST(GateCost, PassesFillTheirShareOfABlock) {
  const Settings settings = fifth_of_a_second();
  EXPECT_EQ(pass_steps(settings, 0.010), 5);
  EXPECT_EQ(pass_steps(settings, 0.011), 5);
  EXPECT_EQ(pass_steps(settings, 0.025), 2);
  EXPECT_EQ(pass_steps(settings, 2.0), 2);
}

TEST(GateCost, IsStartsAndTurnsByHand) {
  const Forecast all = forecast(kLaunches, fifth_of_a_second(), std::nullopt);
  EXPECT_EQ(all.rows, 4U);
  EXPECT_EQ(all.looks, 3U);
  // 6 starts of 10 s.
  EXPECT_NEAR(all.looks_s, 60 + 24 * 3.3, 1e-9);
  // 4 starts of 10 s, and every row once more.
  EXPECT_NEAR(all.confirmation_s, 40 + 16 * 3.3, 1e-9);
}

TEST(GateCost, AsManyLooksAsFit) {
  const Forecast all = forecast(kLaunches, fifth_of_a_second(), std::nullopt);
  EXPECT_EQ(forecast(kLaunches, fifth_of_a_second(), all.total_s()).looks, 3U);
  const Forecast two = forecast(kLaunches, fifth_of_a_second(), all.total_s() - 0.1);
  EXPECT_EQ(two.looks, 2U);
  EXPECT_NEAR(two.looks_s, 40 + 16 * 3.3, 1e-9);
  // One look cannot find these rows slower, so it needs no confirmation.
  const Forecast one = forecast(kLaunches, fifth_of_a_second(), 20 + 8 * 3.3 + 0.001);
  EXPECT_EQ(one.looks, 1U);
  EXPECT_EQ(one.confirmation_s, 0);
}

TEST(GateCost, TooLittleForOneLookSaysWhatItNeeds) {
  try {
    forecast(kLaunches, fifth_of_a_second(), 45);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "--time-budget: got 45s, expected at least 47s: 4 rows, 8 turns each in 2 "
                 "starts: at most 47s");
  }
}

TEST(GateCost, LooksThatDoNotFitAreNoted) {
  const Settings settings = fifth_of_a_second();
  const auto note = [&](std::optional<double> budget_s) {
    return note_on_looks(forecast(kLaunches, settings, budget_s), kLaunches, settings, 30);
  };
  EXPECT_EQ(note(std::nullopt), "");
  EXPECT_EQ(note(200), "the time budget allows 2 of 3 looks");
  // Two looks and the confirmation take 2 x (40 + 16 x 3.3) s, after the 30 s that are spent.
  EXPECT_EQ(note(50),
            "the time budget allows 1 of 3 looks: nothing can be found slower; --time-budget 4m "
            "would allow 2");
}

TEST(GateCost, ReadsInOneLine) {
  const Settings settings = fifth_of_a_second();
  EXPECT_EQ(to_text(forecast(kLaunches, settings, std::nullopt), settings),
            "4 rows, 24 turns each in 6 starts: at most 3m52s, of which 1m33s to confirm 4 rows");
}

}  // namespace
}  // namespace gradsync::gate
