#include "harness/gate/settings.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;

std::string complaint_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string complaint(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  return complaint_of([&] { validate(settings, "smoke.json"); });
}

TEST(GateSettings, DefaultsMakeSense) {
  EXPECT_EQ(complaint([](Settings&) {}), "accepted");
}

TEST(GateSettings, TheDefaultLooksFollowTheStarts) {
  const Settings settings;
  EXPECT_EQ(settings.looks.size(), 14U);
  EXPECT_EQ(settings.looks.front().turns, 2 * settings.start_turns);
  EXPECT_EQ(settings.looks.back().turns, 33 * settings.start_turns);
  EXPECT_EQ(turns_to_pass(settings), 5 * settings.start_turns);
  EXPECT_TRUE(can_find_slower(settings));
}

TEST(GateSettings, TheShortFormIsMadeForFivePercent) {
  const Settings settings = short_form();
  validate(settings, "short");
  EXPECT_EQ(settings.smallest_effect, 0.05);
  EXPECT_DOUBLE_EQ(settings.mean_smallest_effect, 0.2 / 3);
  EXPECT_EQ(settings.alpha, Settings{}.alpha);
  EXPECT_EQ(settings.looks.size(), 6U);
  EXPECT_EQ(settings.looks.front().turns, 30);
  EXPECT_EQ(settings.looks.back().turns, 100);
  EXPECT_EQ(turns_to_pass(settings), 50);
  EXPECT_EQ(settings.confirmation_turns, 40);
  EXPECT_EQ(settings.confirmation_factor, 5);
  EXPECT_EQ(settings.confirmed_rows, 1);
}

TEST(GateSettings, LooksStayAtTheirStartsWhereStartsAreShorter) {
  const Settings four = with_start_turns(Settings{}, 4);
  validate(four, "four turns");
  EXPECT_EQ(four.start_turns, 4);
  EXPECT_EQ(four.looks.front().turns, 8);
  EXPECT_EQ(four.looks.back().turns, 33 * 4);
  EXPECT_EQ(four.confirmation_turns, 40);
  EXPECT_EQ(four.looks[3].not_slower_weight, Settings{}.looks[3].not_slower_weight);
}

TEST(GateSettings, NonsenseIsNamed) {
  const auto change = [](double Settings::*field, double value) {
    return complaint([=](Settings& settings) { settings.*field = value; });
  };
  EXPECT_EQ(change(&Settings::margin, -0.01),
            "smoke.json: field 'margin': got -0.01, expected a share from 0 to below 1");
  EXPECT_THAT(change(&Settings::margin, 0.03),
              HasSubstr("'smallest_effect': got 0.03, expected a share above the margin of 0.03"));
  EXPECT_THAT(change(&Settings::mean_smallest_effect, 0.01), HasSubstr("'mean_smallest_effect'"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {0.0, 1.0, nan}) {
    EXPECT_THAT(change(&Settings::alpha, value), HasSubstr("'alpha'"));
    EXPECT_THAT(change(&Settings::miss_rate, value), HasSubstr("'miss_rate'"));
  }
  EXPECT_THAT(change(&Settings::low_quantile, 0.6), HasSubstr("'low_quantile'"));
  EXPECT_THAT(complaint([](Settings& s) { s.confirmed_rows = 0; }), HasSubstr("'confirmed_rows'"));
  for (const double factor : {0.5, 100.0}) {
    EXPECT_THAT(complaint([=](Settings& s) { s.confirmation_factor = factor; }),
                HasSubstr("'confirmation_factor'"));
  }
  EXPECT_THAT(complaint([](Settings& s) { s.block_s = 0; }), HasSubstr("'block_s'"));
  EXPECT_THAT(complaint([](Settings& s) { s.passes = 3; }), HasSubstr("'passes': got 3"));
  EXPECT_THAT(complaint([](Settings& s) { s.settle_steps = -1; }), HasSubstr("'settle_steps'"));
  EXPECT_THAT(complaint([](Settings& s) { s.phase_steps = 0; }), HasSubstr("'phase_steps'"));
  EXPECT_THAT(complaint([](Settings& s) { s.confirmation_turns = 14; }),
              HasSubstr("'confirmation_turns': got 14, expected a multiple of the 10 turns of a "
                        "start"));
  EXPECT_THAT(complaint([](Settings& s) { s.start_turns = 3; }),
              HasSubstr("'start_turns': got 3, expected an even number"));
}

TEST(GateSettings, LooksFollowEachOtherAndSpendEverything) {
  EXPECT_THAT(complaint([](Settings& s) { s.looks.clear(); }),
              HasSubstr("'looks': got none, expected at least one"));
  EXPECT_THAT(
      complaint([](Settings& s) { s.looks[1].turns = 20; }),
      HasSubstr("'looks[1].turns': got 20, expected a multiple of the 10 turns of a start, above "
                "20"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[2].turns = 26; }),
              HasSubstr("'looks[2].turns': got 26, expected a multiple of the 10 turns"));
  EXPECT_THAT(
      complaint([](Settings& s) { s.looks[0].turns = 10; }),
      HasSubstr("'looks[0].turns': got 10, expected at least 2 starts of 10 turns: one start "
                "cannot know what it drew"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[1].slower_weight += 0.1; }),
              HasSubstr("'looks.slower_weight': got 1.1, expected weights that sum to 1"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[1].not_slower_weight = -0.1; }),
              HasSubstr("'looks[1].not_slower_weight': got -0.1, expected 0 or more"));
}

TEST(GateSettings, AreStoredByName) {
  const auto out = to_json(Settings{});
  EXPECT_EQ(out["smallest_effect"], 0.03);
  EXPECT_EQ(out["looks"][1]["turns"], 30);
  EXPECT_EQ(out["looks"][1]["slower_weight"], 1.0 / 14);
  EXPECT_EQ(out["phase_steps"], 8);
}

}  // namespace
}  // namespace gradsync::gate
