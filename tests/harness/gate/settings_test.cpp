#include "harness/gate/settings.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harness/base/errors.h"
#include "harness/gate/looks.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 16;

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
  check_reachable(Settings{}, kRows, "defaults");
}

TEST(GateSettings, SixteenRowsCanBeDecidedAtSixteenAndAt24Turns) {
  const Settings settings;
  const double first_in_order = settings.alpha / static_cast<double>(slower_tests(kRows));
  EXPECT_GT(std::exp2(-8), first_in_order);  // hence no weight
  EXPECT_EQ(settings.looks[0].slower_weight, 0);
  for (const std::size_t look : {1, 2}) {
    const double level = settings.looks[look].slower_weight * first_in_order;
    EXPECT_LE(std::exp2(-settings.looks[look].turns), level);
    // The control has twice as many tests, for its two directions.
    EXPECT_LE(std::exp2(-settings.looks[look].turns), level / 2);
  }
  for (const Look& look : settings.looks) {
    EXPECT_LE(std::exp2(-look.turns), look.not_slower_weight * settings.miss_rate);
  }
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
  EXPECT_THAT(complaint([](Settings& s) { s.block_s = 0; }), HasSubstr("'block_s'"));
  EXPECT_THAT(complaint([](Settings& s) { s.passes = 3; }), HasSubstr("'passes': got 3"));
  EXPECT_THAT(complaint([](Settings& s) { s.settle_steps = -1; }), HasSubstr("'settle_steps'"));
  EXPECT_THAT(complaint([](Settings& s) { s.confirmation_turns = 14; }),
              HasSubstr("'confirmation_turns': got 14, expected a multiple of the 4 turns of a "
                        "start"));
  EXPECT_THAT(complaint([](Settings& s) { s.start_turns = 3; }),
              HasSubstr("'start_turns': got 3, expected an even number"));
}

TEST(GateSettings, LooksFollowEachOtherAndSpendEverything) {
  EXPECT_THAT(complaint([](Settings& s) { s.looks.clear(); }),
              HasSubstr("'looks': got none, expected at least one"));
  EXPECT_THAT(
      complaint([](Settings& s) { s.looks[1].turns = 8; }),
      HasSubstr("'looks[1].turns': got 8, expected a multiple of the 4 turns of a start, above "
                "8"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[2].turns = 26; }),
              HasSubstr("'looks[2].turns': got 26, expected a multiple of the 4 turns"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[0].turns = 4; }),
              HasSubstr("'looks[0].turns': got 4, expected at least 2 starts of 4 turns: one start "
                        "cannot know what it drew"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[1].slower_weight = 0.5; }),
              HasSubstr("'looks.slower_weight': got 1.1, expected weights that sum to 1"));
  EXPECT_THAT(complaint([](Settings& s) { s.looks[1].not_slower_weight = -0.1; }),
              HasSubstr("'looks[1].not_slower_weight': got -0.1, expected 0 or more"));
}

TEST(GateSettings, LevelsThatCannotBeReachedAreRefusedWithThoseThatCan) {
  // The confirmation's 2^-16 over 2 x 400 tests is more than the looks' 2^-24 / 0.6.
  const Settings settings;
  EXPECT_DOUBLE_EQ(smallest_reachable_alpha(settings, 400), 800 * std::exp2(-16));
  EXPECT_EQ(complaint_of([&] { check_reachable(settings, 400, "smoke.json"); }),
            "smoke.json: field 'alpha': got 0.01, expected at least 0.012, the smallest that 24 "
            "turns of 400 rows can reach even where every turn says the same: more turns, or fewer "
            "rows");
  EXPECT_DOUBLE_EQ(smallest_reachable_miss_rate(settings), std::exp2(-24) / 0.3);
  Settings one_look = with_first_looks(settings, 1);
  EXPECT_TRUE(std::isinf(smallest_reachable_alpha(one_look, 1)));
  one_look.looks[0].slower_weight = 1;
  EXPECT_DOUBLE_EQ(smallest_reachable_alpha(one_look, 1), 2 * std::exp2(-8));
}

TEST(GateSettings, FewerLooksSpendEverythingToo) {
  const Settings two = with_first_looks(Settings{}, 2);
  validate(two, "two looks");
  EXPECT_DOUBLE_EQ(two.looks[1].slower_weight, 1.0);
  EXPECT_DOUBLE_EQ(two.looks[0].not_slower_weight, 0.4 / 0.7);
  EXPECT_TRUE(can_find_slower(two));
  const Settings one = with_first_looks(Settings{}, 1);
  EXPECT_FALSE(can_find_slower(one));
  EXPECT_EQ(one.looks[0].slower_weight, 0.0);
  EXPECT_EQ(one.looks[0].not_slower_weight, 1.0);
  EXPECT_THROW(with_first_looks(Settings{}, 4), InternalError);
}

TEST(GateSettings, AreStoredByName) {
  const auto out = to_json(Settings{});
  EXPECT_EQ(out["smallest_effect"], 0.03);
  EXPECT_EQ(out["looks"][1]["turns"], 16);
  EXPECT_EQ(out["looks"][1]["slower_weight"], 0.4);
}

}  // namespace
}  // namespace gradsync::gate
