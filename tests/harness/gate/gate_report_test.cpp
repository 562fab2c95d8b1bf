#include "harness/gate/gate_report.h"

#include <gmock/gmock.h>

#include "tests/harness/gate/sample_gate.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;

RowReport row_with(const std::optional<RowCounts>& counts, std::optional<Verdict> times) {
  RowReport row;
  row.row = {"", test::sample_cell("1x2", "no_sync")};
  row.counts = counts;
  row.no_times_because = "not timed";
  if (times) {
    row.times = RowDecision{};
    row.times->verdict = *times;
    row.times->reason = "by its times";
  }
  return row;
}

const RowCounts kSame;
const RowCounts kDifferent{{{"buckets", "buckets: 15 where the baseline has 14"}}, "", ""};
const RowCounts kNothing{{}, "the baseline is failed", ""};

TEST(RowVerdict, CountsThatDifferFailWhateverTheTimesSay) {
  for (const Verdict times : {Verdict::Pass, Verdict::Undecided, Verdict::Unfit}) {
    EXPECT_EQ(verdict_of(row_with(kDifferent, times)), Verdict::Regression);
  }
  EXPECT_EQ(verdict_of(row_with(kDifferent, std::nullopt)), Verdict::Regression);
}

TEST(RowVerdict, CountsThatAgreeLeaveItToTheTimes) {
  for (const Verdict times :
       {Verdict::Pass, Verdict::Regression, Verdict::Undecided, Verdict::Unfit}) {
    EXPECT_EQ(verdict_of(row_with(kSame, times)), times);
  }
  EXPECT_EQ(verdict_of(row_with(kSame, std::nullopt)), Verdict::Pass);
}

TEST(RowVerdict, NothingToHoldItAgainstIsUnfit) {
  EXPECT_EQ(verdict_of(row_with(kNothing, Verdict::Pass)), Verdict::Unfit);
  EXPECT_EQ(verdict_of(row_with(std::nullopt, std::nullopt)), Verdict::Unfit);
}

TEST(GateVerdict, IsTheWorstOfRowsAndClaims) {
  GateReport gate;
  gate.rows = {row_with(kSame, Verdict::Pass)};
  EXPECT_EQ(to_json(gate)["exit_status"], 0);
  gate.claims.emplace_back().verdict = Verdict::Undecided;
  EXPECT_EQ(to_json(gate)["exit_status"], 3);
  gate.rows.push_back(row_with(kSame, Verdict::Regression));
  EXPECT_EQ(to_json(gate)["exit_status"], 1);
  gate.claims.emplace_back().verdict = Verdict::Unfit;
  EXPECT_EQ(to_json(gate)["exit_status"], 4);
  EXPECT_EQ(to_json(gate)["verdict"], "unfit");
}

TEST(GateVerdict, AnExactDifferenceIsARegressionWhateverOtherRowsAre) {
  GateReport gate;
  gate.rows = {row_with(kSame, Verdict::Unfit), row_with(kNothing, Verdict::Undecided),
               row_with(kDifferent, std::nullopt)};
  gate.claims.emplace_back().verdict = Verdict::Unfit;
  EXPECT_EQ(to_json(gate)["exit_status"], 1);
  EXPECT_EQ(to_json(gate)["verdict"], "regression");
  gate.rows.pop_back();
  EXPECT_EQ(to_json(gate)["exit_status"], 4);
}

TEST(GateJson, ARowsReasonIsThatOfItsVerdict) {
  GateReport gate;
  gate.rows = {row_with(kDifferent, Verdict::Pass), row_with(kSame, Verdict::Undecided),
               row_with(kNothing, Verdict::Pass), row_with(kSame, std::nullopt)};
  const json rows = to_json(gate)["rows"];
  EXPECT_EQ(rows[0]["reason"], "buckets: 15 where the baseline has 14");
  EXPECT_EQ(rows[1]["reason"], "by its times");
  EXPECT_EQ(rows[2]["reason"], "the baseline is failed");
  EXPECT_EQ(rows[3]["reason"], "not timed");
}

TEST(GateJson, WhatIsNotKnownIsNull) {
  GateReport gate;
  gate.rows = {row_with(kSame, Verdict::Pass), row_with(std::nullopt, std::nullopt)};
  gate.rows[0].took_turns = false;
  gate.rows[0].times->measures[Measure::Mean].effect = Effect{0.01, std::nullopt};
  const json out = to_json(gate);
  EXPECT_TRUE(out["duration_s"].is_null());
  EXPECT_TRUE(out["claims_file"].is_null());
  const json& times = out["rows"][0]["times"];
  EXPECT_TRUE(times["low"].is_null());
  EXPECT_TRUE(times["mean"]["p"].is_null()) << "without turns there is no test";
  EXPECT_TRUE(times["mean"]["effect"]["ci95"].is_null());
  EXPECT_TRUE(times["mean"]["control"].is_null());
  EXPECT_TRUE(times["smallest_visible_effect"].is_null());
  EXPECT_TRUE(out["rows"][1]["times"].is_null());
  EXPECT_EQ(out["rows"][1]["null_reasons"]["times"], "not timed");
  EXPECT_EQ(out["rows"][1]["null_reasons"]["counts"], "not compared");
}

TEST(GateJson, HasEffectsOfBothMeasuresWithWhatTheyRestOn) {
  const json row = to_json(test::sample_gate())["rows"][1];
  EXPECT_EQ(row["name"], "1x2, baseline");
  EXPECT_EQ(row["verdict"], "regression");
  const json& low = row["times"]["low"];
  EXPECT_EQ(low["effect"]["value"], 0.031);
  EXPECT_EQ(low["effect"]["ci95"], json::array({0.027, 0.036}));
  EXPECT_EQ(low["control"]["value"], 0.001);
  EXPECT_EQ(low["p"]["slower"], 0.00012);
  EXPECT_EQ(low["variance"]["between_turns"], 1e-4);
  EXPECT_EQ(low["variance"]["between_starts"], 4e-6);
  EXPECT_EQ(low["confirmed"]["p"], 1.5e-05);
  EXPECT_TRUE(row["times"]["mean"]["confirmed"].is_null());
  EXPECT_EQ(row["times"]["confirmation_turns"], 16);
  EXPECT_EQ(row["times"]["starts"], 2);
}

}  // namespace
}  // namespace gradsync::gate
