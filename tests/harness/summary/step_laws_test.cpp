// Covers: sweep_finding.cpp.
#include "harness/summary/step_laws.h"

#include <gmock/gmock.h>

#include "harness/report/findings.h"
#include "harness/summary/build_result.h"
#include "harness/text/blocks.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {

using text::Sentences;

namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_context;
using test::sample_trial;

const std::vector<int> kAccumulations{1, 2, 4, 8};

json cell_of(const std::string& strategy, int accumulation_steps, const json& change = {}) {
  json cell = sample_cell("2x1_1gbit", strategy);
  cell["accumulation_steps"] = accumulation_steps;
  cell.update(change);
  return cell;
}

// Trials whose steps take 0.01 + 0.1 m + 0.05 s seconds.
std::vector<TrialRecord> sweep(const std::vector<std::pair<std::string, bool>>& strategies,
                               const std::vector<int>& accumulations,
                               const json& change = json::object()) {
  std::vector<TrialRecord> trials;
  for (const int m : accumulations) {
    for (const auto& [strategy, syncs_each] : strategies) {
      const double step_s = 0.01 + 0.1 * m + 0.05 * (syncs_each ? m : 1);
      trials.push_back(sample_trial("", cell_of(strategy, m, change), 0, {step_s, step_s}));
    }
  }
  return trials;
}

const std::vector<std::pair<std::string, bool>> kTwo{{"baseline", true}, {"no_sync", false}};

results::Result result_of(const std::vector<TrialRecord>& trials,
                          const json& plan = json::object()) {
  return build_result(sample_context(), plan, trials);
}

json laws_of(const results::Result& result) {
  return json(result)["laws"];
}

std::string sentences(const results::Result& result) {
  return text::to_markdown({Sentences{report::law_findings(parts_of(result).at(0))}});
}

void expect_costs(const json& law) {
  EXPECT_NEAR(law["fixed_s"], 0.01, 1e-9);
  EXPECT_NEAR(law["micro_batch_s"], 0.1, 1e-9);
  EXPECT_NEAR(law["sync_s"], 0.05, 1e-9);
}

TEST(StepLaws, ASweepGivesTheCostsThatItsStepsWereMadeFrom) {
  const json laws = laws_of(result_of(sweep(kTwo, kAccumulations)));
  ASSERT_EQ(laws.size(), 1U);
  expect_costs(laws[0]);
  EXPECT_FALSE(laws[0]["cell"].contains("strategy"));
  EXPECT_FALSE(laws[0]["cell"].contains("accumulation_steps"));
  EXPECT_EQ(laws[0]["cell"]["topology"], "2x1_1gbit");
  ASSERT_EQ(laws[0]["points"].size(), 8U);
  for (const json& point : laws[0]["points"]) {
    const int m = point["accumulation_steps"];
    EXPECT_EQ(point["syncs"], point["strategy"] == "baseline" ? m : 1);
    EXPECT_EQ(point["held_out"], m == 2 || m == 8);
  }
}

// The last no_sync is twice as long as by the law.
std::vector<TrialRecord> sweep_with_an_outlier() {
  auto trials = sweep(kTwo, kAccumulations);
  test::stretch(trials.back(), 2);
  return trials;
}

TEST(StepLaws, WhatWasNotFittedChecksTheLaw) {
  const json law = laws_of(result_of(sweep_with_an_outlier()))[0];
  expect_costs(law);
  EXPECT_NEAR(law["largest_residual"], 0, 1e-9);
  EXPECT_NEAR(law["largest_error"], 0.5, 1e-9);
}

TEST(StepLaws, TheSentenceSaysHowFarItIsOffAndWhere) {
  test::expect_phrases("summary", {sentences(result_of(sweep_with_an_outlier()))});
}

TEST(StepLaws, CellsThatDifferInMoreHaveLawsOfTheirOwn) {
  auto trials = sweep(kTwo, kAccumulations);
  for (auto& trial : sweep(kTwo, kAccumulations, {{"compression", "fp16"}})) {
    test::stretch(trial, 0.5);
    trials.push_back(trial);
  }
  const auto result = result_of(trials);
  ASSERT_EQ(result.laws.size(), 2U);
  for (const json& law : laws_of(result)) {
    EXPECT_NEAR(law["sync_s"], law["cell"].contains("compression") ? 0.025 : 0.05, 1e-9);
  }
  EXPECT_THAT(sentences(result), ::testing::HasSubstr(", compression fp16, a"));
}

TEST(StepLaws, AMisplacedNoSyncReducesAsItsWrapperReadsTheFlag) {
  const auto three = [](bool improper_syncs_each) {
    return std::vector<std::pair<std::string, bool>>{
        {"baseline", true}, {"no_sync_improper", improper_syncs_each}, {"no_sync", false}};
  };
  expect_costs(laws_of(result_of(sweep(three(true), kAccumulations)))[0]);
  expect_costs(laws_of(result_of(sweep(three(false), kAccumulations, {{"wrapper", "fsdp"}})))[0]);
}

TEST(StepLaws, FailedCellsCountForNothing) {
  auto trials = sweep_with_an_outlier();
  trials.push_back(trials.back());  // its other launch failed: the cell still has times
  trials.back().launch = 1;
  trials.back().status = results::Status::Timeout;
  trials.back().reason = "no progress";
  const json law = laws_of(result_of(trials))[0];
  EXPECT_EQ(law["points"].size(), 7U);
  EXPECT_NEAR(law["largest_error"], 0, 1e-9);
}

TEST(StepLaws, ThereIsNoneWithoutASweepOfEqualWindows) {
  EXPECT_TRUE(result_of(sweep(kTwo, {1, 2})).laws.empty());
  EXPECT_TRUE(result_of(sweep({{"no_sync", false}}, kAccumulations)).laws.empty());
  EXPECT_TRUE(
      result_of(sweep(kTwo, kAccumulations), {{"window_rule", "as_published"}}).laws.empty());
  const auto other = sweep(kTwo, kAccumulations, {{"wrapper", "another"}});
  EXPECT_TRUE(result_of(other).laws.empty());
}

}  // namespace
}  // namespace gradsync::summary
