#include "harness/summary/run_comparison.h"

#include <gmock/gmock.h>

#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::Status;
using results::TrialRecord;
using test::sample_cell;
using test::sample_context;
using test::sample_trial;
using ::testing::HasSubstr;

// Three launches of baseline and no_sync on one topology, steps as given.
std::vector<TrialRecord> trials_of(double baseline_s, double no_sync_s) {
  std::vector<TrialRecord> trials;
  for (int launch = 0; launch < 3; ++launch) {
    trials.push_back(sample_trial("", sample_cell("1x2", "baseline"), launch, {baseline_s}));
    trials.push_back(sample_trial("", sample_cell("1x2", "no_sync"), launch, {no_sync_s}));
  }
  return trials;
}

FinishedRun run_of(std::vector<TrialRecord> trials, const json& context = sample_context(),
                   const json& plan = json::object()) {
  FinishedRun run{.directory = "results/runs/sample", .result = {}, .trials = std::move(trials)};
  run.result = build_result(context, plan, run.trials);
  return run;
}

json context_with(const std::string& name, const json& value) {
  json context = sample_context();
  context[name] = value;
  return context;
}

TEST(RunComparison, RatioIsThatOfTheSecondRunOverTheFirst) {
  std::vector<TrialRecord> slower = trials_of(3.0, 1.0);
  test::stretch(slower.front(), 1.2);
  const json comparison = compare_runs(run_of(trials_of(2.0, 1.0)), run_of(slower));
  ASSERT_EQ(comparison["cells"].size(), 2U);
  const json& baseline = comparison["cells"][0];
  EXPECT_EQ(baseline["cell"]["strategy"], "baseline");
  EXPECT_DOUBLE_EQ(baseline["step_ratio"]["ratio"], 1.6);
  // Launches of 3.6, 3 and 3 s over 2 s, which do not vary: s = 0.346410, t of 2 degrees 4.302653.
  EXPECT_NEAR(baseline["step_ratio"]["ci95"][1].get<double>(), 1.6 + 4.302653 * 0.2 / 2, 1e-6);
  EXPECT_EQ(baseline["step_ratio"]["interval"], "Student's t over 3 launches of A and 3 of B");
  EXPECT_DOUBLE_EQ(baseline["a"]["slowdown"]["ratio"], 2.0);
  EXPECT_DOUBLE_EQ(comparison["cells"][1]["step_ratio"]["ratio"], 1.0);
}

TEST(RunComparison, AnotherProcessorLeavesCountsAndSlowdownsButNoTimes) {
  const json comparison = compare_runs(run_of(trials_of(2, 1), context_with("cpu_model", "P")),
                                       run_of(trials_of(2, 1), context_with("cpu_model", "Q")));
  for (const json& cell : comparison["cells"]) {
    EXPECT_TRUE(cell["step_ratio"].is_null());
    EXPECT_THAT(cell["null_reasons"]["step_ratio"], HasSubstr("cpu_model"));
    for (const char* run : {"a", "b"}) {
      EXPECT_TRUE(cell[run]["step_s"].is_null());
      EXPECT_TRUE(cell[run]["exposed_comm_s"].is_null());
      EXPECT_TRUE(cell[run]["slowdown"].is_object());
      EXPECT_TRUE(cell[run]["collectives_per_step"].is_object());
    }
    EXPECT_EQ(cell["same_collectives"], true);
  }
}

TEST(RunComparison, ALinkThatDiffersForbidsTheTimesOfItsCellsOnly) {
  std::vector<TrialRecord> trials = trials_of(2, 1);
  trials.push_back(sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 0, {1.5}));
  const auto link_of = [](double rate) {
    return context_with("links", {{"2x1_1gbit / 1", {{"measured_payload_bits_per_s", rate}}}});
  };
  const json comparison = compare_runs(run_of(trials, link_of(9e8)), run_of(trials, link_of(5e8)));
  ASSERT_EQ(comparison["cells"].size(), 3U);
  EXPECT_TRUE(comparison["cells"][0]["step_ratio"].is_object());
  EXPECT_TRUE(comparison["cells"][1]["step_ratio"].is_object());
  EXPECT_TRUE(comparison["cells"][2]["step_ratio"].is_null());
}

TEST(RunComparison, OneCollectiveMoreIsNotTheSame) {
  std::vector<TrialRecord> more = trials_of(2, 1);
  for (TrialRecord& trial : more) ++trial.ledger.per_step["all_reduce"].count;
  const json comparison = compare_runs(run_of(trials_of(2, 1)), run_of(more));
  EXPECT_EQ(comparison["cells"][0]["same_collectives"], false);
  const json same = compare_runs(run_of(more), run_of(more));
  EXPECT_EQ(same["cells"][0]["same_collectives"], true);
}

TEST(RunComparison, CellsThatOnlyOneRunHasAreListed) {
  std::vector<TrialRecord> a = trials_of(2, 1);
  std::vector<TrialRecord> b = trials_of(2, 1);
  a.push_back(sample_trial("", sample_cell("1x2", "accumulate"), 0, {1}));
  b.push_back(sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 0, {1}));
  const json comparison = compare_runs(run_of(a), run_of(b));
  EXPECT_EQ(comparison["cells"].size(), 2U);
  ASSERT_EQ(comparison["only_in_a"].size(), 1U);
  EXPECT_EQ(comparison["only_in_a"][0]["cell"]["strategy"], "accumulate");
  ASSERT_EQ(comparison["only_in_b"].size(), 1U);
  EXPECT_EQ(comparison["only_in_b"][0]["cell"]["topology"], "2x1_1gbit");
}

TEST(RunComparison, APartOfAnotherNameMatchesByItsParameters) {
  const json cell = sample_cell("1x2", "no_sync");
  const json comparison = compare_runs(
      run_of({sample_trial("first", cell, 0, {1}), sample_trial("second", cell, 0, {2})}),
      run_of({sample_trial("second", cell, 0, {2}), sample_trial("other", cell, 0, {1})}));
  ASSERT_EQ(comparison["cells"].size(), 2U);
  for (const json& shared : comparison["cells"]) {
    EXPECT_EQ(shared["step_ratio"]["ratio"], 1.0) << shared;
  }
}

TEST(RunComparison, AFailedTrialGivesNoRatioAndItsReason) {
  std::vector<TrialRecord> failed = trials_of(2, 1);
  failed.front().status = Status::Failed;
  failed.front().reason = "a rank died";
  const json comparison = compare_runs(run_of(trials_of(2, 1)), run_of(failed));
  const json& cell = comparison["cells"][0];
  EXPECT_TRUE(cell["step_ratio"].is_null());
  EXPECT_EQ(cell["null_reasons"]["step_ratio"], "B is failed: a rank died");
  EXPECT_TRUE(comparison["cells"][1]["step_ratio"].is_object());
}

TEST(RunComparison, StepsThatTookNoTimeGiveNoRatio) {
  const json comparison = compare_runs(run_of(trials_of(0, 1)), run_of(trials_of(2, 1)));
  EXPECT_TRUE(comparison["cells"][0]["step_ratio"].is_null());
  EXPECT_THAT(comparison["cells"][0]["null_reasons"]["step_ratio"], HasSubstr("no timed step"));
}

}  // namespace
}  // namespace gradsync::summary
