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

// Two gates of two rows: one flags its first row, the other is unfit in one and passes one.
Replay by_hand() {
  GateOutcome alarm;
  alarm.verdict = Verdict::Regression;
  alarm.rows = {Verdict::Regression, Verdict::Pass};
  alarm.turns = {24, 8};
  alarm.habits = {{false, false}, {true, false}, {true, true}};
  GateOutcome unfit;
  unfit.verdict = Verdict::Unfit;
  unfit.rows = {Verdict::Unfit, Verdict::Pass};
  unfit.turns = {24, 16};
  unfit.habits = {{false, false}, {false, true}, {false, false}};
  return {0.03, false, 10, {alarm, unfit}};
}

json by_name(const json& replay, const std::string& name) {
  for (const json& by : replay.at("flagged")) {
    if (by.at("by") == name) return by;
  }
  return nullptr;
}

json count(std::int64_t count, std::int64_t of) {
  const stats::Interval interval = stats::rate_interval(count, of);
  return {{"count", count},
          {"of", of},
          {"rate", static_cast<double>(count) / static_cast<double>(of)},
          {"ci95", {interval.lo, interval.hi}}};
}

TEST(ErrorRates, CountsGatesAndRowsApart) {
  const json out = to_json(ErrorRates{"by hand", json::object(), Settings{}, {by_hand()}});
  EXPECT_EQ(out.at("schema"), "gradsync.gate_error_rates/1");
  const json& replay = out.at("replays").at(0);
  EXPECT_EQ(replay.at("extra_work"), 0.03);
  EXPECT_EQ(replay.at("starts_are"), "independent");
  EXPECT_EQ(by_name(replay, "gate").at("gates"), count(1, 2));
  EXPECT_EQ(by_name(replay, "gate").at("rows"), count(1, 4));
  EXPECT_EQ(by_name(replay, "fixed 5 %").at("gates"), count(0, 2));
  EXPECT_EQ(by_name(replay, "sequential arms").at("gates"), count(2, 2));
  EXPECT_EQ(by_name(replay, "sequential arms").at("rows"), count(2, 4));
  EXPECT_EQ(by_name(replay, "pooled Mann-Whitney").at("gates"), count(1, 2));
  EXPECT_EQ(by_name(replay, "pooled Mann-Whitney").at("rows"), count(2, 4));
  EXPECT_EQ(replay.at("verdicts").at("gates").at("unfit"), count(1, 2));
  EXPECT_EQ(replay.at("verdicts").at("gates").at("pass"), count(0, 2));
  EXPECT_EQ(replay.at("verdicts").at("rows").at("pass"), count(2, 4));
}

TEST(ErrorRates, AnAlarmCountsThoughTheGateIsUnfit) {
  Replay replay = by_hand();
  replay.gates[1].rows[1] = Verdict::Regression;
  const json out = to_json(ErrorRates{"by hand", json::object(), Settings{}, {replay}});
  EXPECT_EQ(by_name(out.at("replays").at(0), "gate").at("gates"), count(2, 2));
}

TEST(ErrorRates, SaysHowManyTurnsItTookToFindWhatIsSlower) {
  const json out = to_json(ErrorRates{"by hand", json::object(), Settings{}, {by_hand()}});
  const json& found = out.at("replays").at(0).at("found_within");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at(1), (json{{"turns", 16}, {"rows", count(0, 4)}}));
  EXPECT_EQ(found.at(2), (json{{"turns", 24}, {"rows", count(1, 4)}}));
}

TEST(ErrorRates, ReusedStartsHaveNoIntervalAndNoGatesNoRate) {
  Replay reused = by_hand();
  reused.reuses_starts = true;
  const Replay none{0.05, false, 0, {}};
  const ErrorRates rates{"by hand", json::object(), Settings{}, {reused, none}};
  const json out = to_json(rates);
  const json counted = by_name(out.at("replays").at(0), "gate").at("rows");
  EXPECT_EQ(counted, (json{{"count", 1}, {"of", 4}, {"rate", 0.25}, {"ci95", nullptr}}));
  const json nothing = by_name(out.at("replays").at(1), "gate").at("rows");
  EXPECT_EQ(nothing, (json{{"count", 0}, {"of", 0}, {"rate", nullptr}, {"ci95", nullptr}}));
  EXPECT_THAT(error_rate_tables(rates), testing::Not(HasSubstr("\n|        5 % |")));
}

TEST(ErrorRates, AreTwoTables) {
  Replay reused = by_hand();
  reused.reuses_starts = true;
  const ErrorRates rates{"by hand", json::object(), Settings{}, {by_hand(), reused}};
  EXPECT_EQ(error_rate_tables(rates),
            R"(Gates that each flags, and the gate's other verdicts:

| extra work |     starts | gates |               gate |         fixed 5 % |       sequential arms | pooled Mann-Whitney |              pass |         undecided |              unfit |
|-----------:|-----------:|------:|-------------------:|------------------:|----------------------:|--------------------:|------------------:|------------------:|-------------------:|
|        3 % |         10 |     2 | 50.0 % [1.3, 98.7] | 0.0 % [0.0, 77.6] | 100.0 % [22.4, 100.0] |  50.0 % [1.3, 98.7] | 0.0 % [0.0, 77.6] | 0.0 % [0.0, 77.6] | 50.0 % [1.3, 98.7] |
|        3 % | 10, reused |     2 |             50.0 % |             0.0 % |               100.0 % |              50.0 % |             0.0 % |             0.0 % |             50.0 % |

Rows that each flags, and the gate's other verdicts:

| extra work |     starts | rows |               gate |         fixed 5 % |    sequential arms | pooled Mann-Whitney |               pass |         undecided |              unfit |
|-----------:|-----------:|-----:|-------------------:|------------------:|-------------------:|--------------------:|-------------------:|------------------:|-------------------:|
|        3 % |         10 |    4 | 25.0 % [0.6, 80.6] | 0.0 % [0.0, 52.7] | 50.0 % [6.8, 93.2] |  50.0 % [6.8, 93.2] | 50.0 % [6.8, 93.2] | 0.0 % [0.0, 52.7] | 25.0 % [0.6, 80.6] |
|        3 % | 10, reused |    4 |             25.0 % |             0.0 % |             50.0 % |              50.0 % |             50.0 % |             0.0 % |             25.0 % |
)");
}

TEST(ReplayFolder, CountsWhatIsStoredThereAndIsNamedAfterIt) {
  const test::TemporaryFolder folder;
  folder.write("same.turns.json", to_json(synthetic_family({})).dump());
  folder.write("more.turns.json", to_json(synthetic_family({.extra_work = 0.1})).dump());
  const ErrorRates rates = replay_folder(folder.file(""), Settings{}, {.gates = 3});
  EXPECT_THAT(rates.name, testing::StartsWith("gradsync_"));
  EXPECT_EQ(rates.context.at("plan"), "synthetic");
  ASSERT_EQ(rates.replays.size(), 4U) << "two pools, each without and with reuse";
  const json out = to_json(rates);
  EXPECT_EQ(by_name(out.at("replays").at(0), "gate").at("gates"), count(0, 1));
  EXPECT_EQ(out.at("replays").at(1).at("starts_are"), "reused");
  EXPECT_EQ(out.at("replays").at(1).at("verdicts").at("rows").at("pass").at("of"), 6);
  EXPECT_EQ(by_name(out.at("replays").at(2), "gate").at("rows"), count(2, 2));
}

TEST(ReplayFolder, AFolderWithoutTurnsIsRefused) {
  const test::TemporaryFolder folder;
  const std::string sentence =
      test::message_of<ConfigError>([&] { replay_folder(folder.file(""), Settings{}); });
  EXPECT_THAT(sentence, HasSubstr("has no stored turns, expected files named *.turns.json"));
}

}  // namespace
}  // namespace gradsync::gate
