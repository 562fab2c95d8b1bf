#include "harness/gate/error_rates.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/stats/error_rates.h"
#include "tests/harness/gate/synthetic_turns.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

GateOutcome outcome(Verdict verdict, const std::vector<Verdict>& rows) {
  GateOutcome outcome;
  outcome.verdict = verdict;
  outcome.rows = rows;
  outcome.turns = std::vector<int>(rows.size(), 24);
  return outcome;
}

// Two gates of two rows with two labellings each: one alarms in one of them, the other never.
Replay relabelled_by_hand() {
  const GateOutcome pass = outcome(Verdict::Pass, {Verdict::Pass, Verdict::Pass});
  const GateOutcome alarm = outcome(Verdict::Regression, {Verdict::Regression, Verdict::Pass});
  return {0, Composition::Relabelled, 20, {{alarm, pass}, {pass, pass}}};
}

// One gate of two rows: the first is found where it is slowed, at the second look; the second is
// not, but the first is.
Replay slowed_by_hand() {
  GateOutcome first = outcome(Verdict::Regression, {Verdict::Regression, Verdict::Pass});
  first.slowed_row = 0;
  first.turns[0] = 16;
  GateOutcome second = outcome(Verdict::Regression, {Verdict::Regression, Verdict::Undecided});
  second.slowed_row = 1;
  return {0.03, Composition::OneRowSlowed, 20, {{first, second}}};
}

ErrorRates by_hand(const std::vector<Replay>& replays) {
  ErrorRates rates{"by hand", json::object(), ten_starts(), {}, replays};
  rates.control.starts = 40;
  rates.control.measures[Measure::Low] = {0.0002, stats::Interval{-0.0005, 0.0009}};
  return rates;
}

// Returns the figures of the gate, the only entry of the list.
json of_gate(const json& flagged) {
  EXPECT_EQ(flagged.size(), 1U);
  EXPECT_EQ(flagged.at(0).at("by"), "gate");
  return flagged.at(0).at("gates");
}

json rate(const std::vector<double>& shares) {
  const stats::Interval interval = stats::share_interval(shares);
  double sum = 0;
  for (const double share : shares) sum += share;
  return {{"rate", sum / static_cast<double>(shares.size())},
          {"ci95", {interval.lo, interval.hi}},
          {"shares", shares}};
}

TEST(ErrorRates, FalseAlarmsAreSharesOfLabellingsByGate) {
  const json out = to_json(by_hand({relabelled_by_hand()}));
  EXPECT_EQ(out.at("schema"), "gradsync.gate_error_rates/2");
  const json& replay = out.at("replays").at(0);
  EXPECT_EQ(replay.at("gates_are"), "relabelled");
  EXPECT_EQ(replay.at("gates"), 2);
  EXPECT_EQ(replay.at("outcomes_of_a_gate"), 2);
  EXPECT_EQ(of_gate(replay.at("false_alarms")), rate({0.5, 0}));
  EXPECT_EQ(replay.at("verdicts").at("pass"), rate({0.5, 1}));
  EXPECT_TRUE(replay.at("found").is_null());
}

TEST(ErrorRates, AnAlarmCountsThoughTheGateIsUnfit) {
  Replay replay = relabelled_by_hand();
  replay.gates[0][0].verdict = Verdict::Unfit;
  const json out = to_json(by_hand({replay})).at("replays").at(0);
  EXPECT_EQ(of_gate(out.at("false_alarms")), rate({0.5, 0}));
  EXPECT_EQ(out.at("verdicts").at("unfit"), rate({0.5, 0}));
}

TEST(ErrorRates, PowerIsOfTheSlowedRowAndAlarmsOfTheOthers) {
  const json out = to_json(by_hand({slowed_by_hand()})).at("replays").at(0);
  EXPECT_EQ(out.at("gates_are"), "one_row_slowed");
  EXPECT_EQ(of_gate(out.at("found")), rate({0.5}));
  EXPECT_EQ(of_gate(out.at("false_alarms")), rate({0.5}));
  EXPECT_EQ(out.at("verdicts").at("undecided"), rate({0.5})) << "of the slowed row";
  EXPECT_EQ(out.at("found_within").at(1), (json{{"turns", 24}, {"gates", rate({0.5})}}));
  EXPECT_EQ(out.at("found_within").at(0), (json{{"turns", 8}, {"gates", rate({0})}}));
}

TEST(ErrorRates, NoGatesHaveNoRateAndNoLine) {
  const ErrorRates rates = by_hand({{0.05, Composition::OneRowSlowed, 0, {}}});
  const json out = to_json(rates).at("replays").at(0);
  EXPECT_EQ(of_gate(out.at("found")),
            (json{{"rate", nullptr}, {"ci95", nullptr}, {"shares", json::array()}}));
  EXPECT_EQ(
      error_rate_tables(rates),
      "The control is slower than the baseline, over 40 starts, by: low quantile 0.02 % [-0.05, "
      "0.09], half-width 0.07 %; mean step 0.00 %.\n");
}

TEST(ErrorRates, AreTwoTablesAndTheControl) {
  const std::string text = error_rate_tables(by_hand({relabelled_by_hand(), slowed_by_hand()}));
  EXPECT_THAT(
      text, HasSubstr("Gates without extra work, and how often any row of them is flagged:\n\n| "));
  EXPECT_THAT(text, HasSubstr("|        0 % |     2 |          2 | 25.0 % [0.0, 93.9] |"));
  EXPECT_THAT(text, HasSubstr("|        3 % |     1 |           2 | 50.0 % [0.0, 100.0] | "));
  EXPECT_THAT(text, HasSubstr("other rows flagged"));
}

TEST(ControlShift, IsThatOfTheThirdPlaceWhereNobodyDraws) {
  TurnFamily family = synthetic_family({.starts = 60, .third_place = 0.02, .block_sd = 0.001});
  const auto shift_of = [](const TurnFamily& turns) {
    return control_shifts({{"file", turns}}, ten_starts());
  };
  const ControlShifts drawn = shift_of(family);
  EXPECT_EQ(drawn.starts, 60U);
  const stats::Interval interval = drawn.measures[Measure::Low].ci95.value();
  EXPECT_LT(interval.lo, 0);
  EXPECT_GT(interval.hi, 0);
  for (RowTurns& row : family.rows) {
    for (Turn& turn : row.turns) {
      for (double& step : turn.of(Arm::Control)) step *= 0.98;
    }
  }
  EXPECT_LT(shift_of(family).measures[Measure::Low].ci95->hi, -0.005);
  EXPECT_FALSE(shift_of(synthetic_family({.starts = 2})).measures[Measure::Mean].ci95);
}

TEST(ReplayFolder, CountsWhatIsStoredThereAndIsNamedAfterIt) {
  const test::TemporaryFolder folder;
  folder.write("same.turns.json", to_json(synthetic_family({})).dump());
  folder.write("more.turns.json", to_json(synthetic_family({.extra_work = 0.1, .seed = 2})).dump());
  folder.write("more_later.turns.json",
               to_json(synthetic_family({.extra_work = 0.1, .seed = 3})).dump());
  const ErrorRates rates = replay_folder(folder.file(""), ten_starts(), {.labellings = 4});
  EXPECT_THAT(rates.name, testing::StartsWith("gradsync_"));
  EXPECT_EQ(rates.context.at("plan"), "synthetic");
  EXPECT_EQ(rates.control.starts, 30U);
  ASSERT_EQ(rates.replays.size(), 2U);
  const json out = to_json(rates);
  EXPECT_EQ(of_gate(out.at("replays").at(0).at("false_alarms")), rate({0}));
  EXPECT_EQ(out.at("replays").at(0).at("outcomes_of_a_gate"), 4);
  EXPECT_EQ(of_gate(out.at("replays").at(1).at("found")), rate({1}))
      << "one gate without extra work allows one with it";
}

TEST(ReplayFolder, WithoutStartsThatAreTheSameThereIsNoPower) {
  const test::TemporaryFolder folder;
  folder.write("more.turns.json", to_json(synthetic_family({.extra_work = 0.1})).dump());
  const ErrorRates rates = replay_folder(folder.file(""), ten_starts());
  ASSERT_EQ(rates.replays.size(), 1U);
  EXPECT_TRUE(rates.replays.front().gates.empty());
}

TEST(ReplayFolder, AFolderWithoutTurnsIsRefused) {
  const test::TemporaryFolder folder;
  const std::string sentence =
      test::message_of<ConfigError>([&] { replay_folder(folder.file(""), ten_starts()); });
  EXPECT_THAT(sentence, HasSubstr("has no stored turns, expected files named *.turns.json"));
}

}  // namespace
}  // namespace gradsync::gate
