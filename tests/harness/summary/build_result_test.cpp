// Covers: cell_group.cpp, cell_summary.cpp, comparison.cpp, launch_times.cpp.
#include "harness/summary/build_result.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "harness/report/formats.h"
#include "tests/harness/report/golden.h"
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

const std::string kTopology = "2x1_1gbit";

TrialRecord trial_of(const std::string& strategy, int launch, std::vector<double> steps) {
  return sample_trial("", sample_cell(kTopology, strategy), launch, std::move(steps));
}

TrialRecord failed_trial(const std::string& strategy, int launch, Status status,
                         const std::string& reason) {
  TrialRecord trial = trial_of(strategy, launch, {9.0, 9.0});
  trial.status = status;
  trial.reason = reason;
  return trial;
}

results::Result made_of(const std::vector<TrialRecord>& trials, const json& plan = json::object()) {
  return build_result(sample_context(), plan, trials);
}

// As result.json has it.
json result_of(const std::vector<TrialRecord>& trials, const json& plan = json::object()) {
  return made_of(trials, plan);
}

json cell_of(const json& result, const std::string& strategy) {
  for (const json& cell : result["cells"]) {
    if (cell["cell"]["strategy"] == strategy) return cell;
  }
  return nullptr;
}

TEST(Result, HoldsWhatItWasMadeFrom) {
  const json result = result_of({trial_of("no_sync", 0, {1.0})}, {{"name", "p"}});
  EXPECT_EQ(result["schema"], "gradsync.result/1");
  EXPECT_EQ(result["context"]["commit"], "3f2c1ab");
  EXPECT_EQ(result["plan"]["name"], "p");
  EXPECT_TRUE(result["exit_status"].is_null());
}

TEST(Result, PoolsTheStepsOfAllLaunches) {
  const json result =
      result_of({trial_of("no_sync", 0, {1.0, 2.0}), trial_of("no_sync", 1, {3.0, 6.0}),
                 trial_of("no_sync", 2, {4.0, 5.0})});
  const json cell = cell_of(result, "no_sync");
  EXPECT_DOUBLE_EQ(cell["step_s"]["mean"], 3.5);
  EXPECT_DOUBLE_EQ(cell["step_s"]["median"], 3.5);
  EXPECT_DOUBLE_EQ(cell["step_s"]["sd"], std::sqrt(17.5 / 5));  // deviations 2.5 1.5 0.5, twice
  EXPECT_DOUBLE_EQ(cell["step_s"]["p5"], 1.25);
  EXPECT_DOUBLE_EQ(cell["step_s"]["p95"], 5.75);
  EXPECT_DOUBLE_EQ(cell["step_s"]["max"], 6.0);
  EXPECT_EQ(cell["step_s"]["n"], 6);
  // Launches of 1.5, 4.5 and 4.5 s: s = sqrt(3), and t of 2 degrees is 4.302653.
  EXPECT_NEAR(cell["step_s"]["ci95"][1].get<double>(), 3.5 + 4.302653, 1e-6);
  EXPECT_EQ(cell["interval"], "Student's t over 3 launches");
  EXPECT_DOUBLE_EQ(cell["micro_batch_s"]["mean"], 0.875);
  EXPECT_NEAR(cell["micro_batch_s"]["ci95"][1].get<double>(), (3.5 + 4.302653) / 4, 1e-6);
  EXPECT_EQ(cell["launches"], 3);
  EXPECT_EQ(cell["blocks"], 3);
  EXPECT_EQ(cell["nodes"], 2);
  EXPECT_EQ(cell["ranks_per_node"], 1);
  EXPECT_EQ(cell["timing"], "real");
}

TEST(Result, SlowdownIsOfElapsedTimesLaunchByLaunch) {
  // The last launch is slower by half for both; the ratio is 2 in each and so 2 in all.
  const json result =
      result_of({trial_of("baseline", 0, {2.0}), trial_of("no_sync", 0, {1.0}),
                 trial_of("baseline", 1, {2.0, 2.0}), trial_of("no_sync", 1, {1.0}),
                 trial_of("baseline", 2, {3.0, 3.0, 3.0}), trial_of("no_sync", 2, {1.5})});
  const json slowdown = cell_of(result, "baseline")["slowdown"];
  EXPECT_EQ(slowdown["vs"], "no_sync");
  EXPECT_NEAR(slowdown["ratio"].get<double>(), 2.0, 1e-12);
  EXPECT_NEAR(slowdown["ci95"][0].get<double>(), 2.0, 1e-6);
  EXPECT_EQ(slowdown["interval"], "Student's t over 3 launches");
  EXPECT_EQ(slowdown["launches"], 3);
  EXPECT_EQ(slowdown["pairs"], 3);
  EXPECT_DOUBLE_EQ(cell_of(result, "no_sync")["slowdown"]["ratio"], 1.0);
  EXPECT_TRUE(cell_of(result, "no_sync")["slowdown"]["ci95"].is_null());
}

TEST(Result, SeveralBlocksOfOneLaunchAreNoLaunches) {
  std::vector<TrialRecord> trials;
  for (int round = 0; round < 6; ++round) {
    for (const auto& [strategy, step_s] : {std::pair{"baseline", 2.0}, std::pair{"no_sync", 1.0}}) {
      trials.push_back(trial_of(strategy, 0, {step_s + 0.01 * round}));
      trials.back().round = round;
    }
  }
  const json baseline = cell_of(result_of(trials), "baseline");
  EXPECT_TRUE(baseline["step_s"]["ci95"].is_null());
  test::expect_phrases("summary", {baseline["interval"].get<std::string>()});
  EXPECT_TRUE(baseline["slowdown"]["ci95"].is_null());
  EXPECT_EQ(baseline["slowdown"]["interval"], baseline["interval"]);
  EXPECT_EQ(baseline["slowdown"]["pairs"], 6);
}

// Ranks take turns in being slow, so that step by step the slowest make 1.9 s of a block of 1.4 s.
TEST(Result, AMeanStepIsElapsedTime) {
  std::vector<TrialRecord> trials;
  for (int launch = 0; launch < 3; ++launch) {
    for (const char* strategy : {"baseline", "no_sync"}) {
      TrialRecord trial = trial_of(strategy, launch, {1.0, 0.9});
      for (auto& rank : trial.ranks) {
        rank.step_s = rank.rank == 0 ? std::vector{1.0, 0.4} : std::vector{0.4, 0.9};
        rank.block_s = rank.rank == 0 ? 1.4 : 1.3;
        if (std::string(strategy) == "baseline") rank.block_s *= 2;
      }
      trials.push_back(std::move(trial));
    }
  }
  const json result = result_of(trials);
  EXPECT_DOUBLE_EQ(cell_of(result, "no_sync")["step_s"]["mean"], 0.7);
  EXPECT_DOUBLE_EQ(cell_of(result, "no_sync")["step_s"]["median"], 0.95);
  EXPECT_DOUBLE_EQ(cell_of(result, "no_sync")["unaccounted_s"], 0);
  EXPECT_DOUBLE_EQ(cell_of(result, "baseline")["slowdown"]["ratio"], 2);
  // Half of the baseline's block is in none of its steps, and its row says so.
  EXPECT_DOUBLE_EQ(cell_of(result, "baseline")["unaccounted_s"], 0.7);
  EXPECT_THAT(report::result_markdown(made_of(trials), {}, {}), HasSubstr("(50.0 % in no step)"));
}

TEST(Result, ImproperIsComparedWithTheBaseline) {
  const json result =
      result_of({trial_of("baseline", 0, {2.0}), trial_of("no_sync_improper", 0, {2.1})});
  EXPECT_NEAR(cell_of(result, "no_sync_improper")["vs_baseline"]["ratio"].get<double>(), 1.05,
              1e-12);
  EXPECT_TRUE(cell_of(result, "baseline")["slowdown"].is_null());
  EXPECT_THAT(cell_of(result, "baseline")["null_reasons"]["slowdown"].get<std::string>(),
              HasSubstr("no no_sync cell"));
}

TEST(Result, ARoundThatOneOfTheTwoLacksIsNoPair) {
  const json result = result_of({trial_of("baseline", 0, {2.0}), trial_of("no_sync", 1, {1.0})});
  EXPECT_TRUE(cell_of(result, "baseline")["slowdown"].is_null());
  EXPECT_THAT(cell_of(result, "baseline")["null_reasons"]["slowdown"].get<std::string>(),
              HasSubstr("no round"));
}

TEST(Result, FailedTrialsGiveTheStatusAndNoNumbers) {
  const json cell = cell_of(
      result_of({trial_of("no_sync", 0, {1.0}), failed_trial("no_sync", 1, Status::Timeout, "slow"),
                 failed_trial("no_sync", 2, Status::Failed, "first"),
                 failed_trial("no_sync", 3, Status::Failed, "second"),
                 trial_of("no_sync", 4, {1.0})}),
      "no_sync");
  EXPECT_EQ(cell["status"], "failed");
  EXPECT_EQ(cell["reason"], "first");
  EXPECT_DOUBLE_EQ(cell["step_s"]["mean"], 1.0);
  EXPECT_EQ(cell["step_s"]["n"], 2);
  EXPECT_EQ(cell["trials"], json({{"ok", 2}, {"timeout", 1}, {"failed", 2}}));
}

TEST(Result, WithoutAGoodTrialEveryNumberIsNullWithAReason) {
  const json cell =
      cell_of(result_of({failed_trial("no_sync", 0, Status::Invalid, "ledger")}), "no_sync");
  EXPECT_EQ(cell["status"], "invalid");
  for (const char* name :
       {"step_s", "micro_batch_s", "slowdown", "collectives_per_step", "exposed_comm_s", "phase_s",
        "attribution", "peak_allocated_bytes", "peak_by_category", "peak_reserved_bytes",
        "peak_reserved_estimate_bytes", "predicted_peak_allocated_bytes",
        "predicted_peak_by_category"}) {
    EXPECT_TRUE(cell[name].is_null()) << name;
    EXPECT_FALSE(cell["null_reasons"][name].get<std::string>().empty()) << name;
  }
}

TEST(Result, ACellThatWasNeverStartedIsSkipped) {
  const json cell = sample_cell(kTopology, "no_sync");
  const json result =
      build_result(sample_context(), {}, {}, {{"part", cell, "no namespaces: run as root"}});
  EXPECT_EQ(result["cells"][0]["status"], "skipped");
  EXPECT_EQ(result["cells"][0]["reason"], "no namespaces: run as root");
  EXPECT_TRUE(result["cells"][0]["step_s"].is_null());
}

TEST(Result, TimesOfAnUnfitBuildAreNotGiven) {
  json context = sample_context();
  context["timing_valid"] = false;
  const json result = build_result(context, {}, {trial_of("no_sync", 0, {1.0})});
  const json& cell = result["cells"][0];
  EXPECT_EQ(cell["status"], "ok");
  EXPECT_TRUE(cell["step_s"].is_null());
  EXPECT_TRUE(cell["slowdown"].is_null());
  EXPECT_TRUE(cell["exposed_comm_s"].is_null());
  EXPECT_FALSE(cell["collectives_per_step"].is_null());
}

TEST(Result, TimesOfCrowdedCoresAreNotGivenButCountsAre) {
  TrialRecord crowded = trial_of("no_sync", 1, {1.0});
  crowded.model_info->refuse_times("8 compute threads share 2 cores");
  const json cell = cell_of(result_of({trial_of("no_sync", 0, {1.0}), crowded}), "no_sync");
  EXPECT_TRUE(cell["step_s"].is_null());
  EXPECT_EQ(cell["null_reasons"]["step_s"], "8 compute threads share 2 cores");
  EXPECT_EQ(cell["collectives_per_step"]["all_reduce"]["count"], 14);
}

TEST(Result, NothingIsComparedWithTimesThatAreNotGiven) {
  TrialRecord reference = trial_of("no_sync", 0, {1.0});
  reference.model_info->refuse_times("rank 1 waited for a core");
  const json result = result_of(
      {reference, trial_of("baseline", 0, {2.0}), trial_of("no_sync_improper", 0, {2.0})});
  const json baseline = cell_of(result, "baseline");
  EXPECT_DOUBLE_EQ(baseline["step_s"]["mean"], 2.0);
  EXPECT_TRUE(baseline["slowdown"].is_null());
  EXPECT_EQ(baseline["null_reasons"]["slowdown"], "no times of no_sync: rank 1 waited for a core");
  EXPECT_DOUBLE_EQ(cell_of(result, "no_sync_improper")["vs_baseline"]["ratio"], 1.0);
}

TEST(Result, SaysWhatTheHostWaitsForOnAGpu) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0});
  trial.model_info->host_reads_back = "the first token";
  const auto made = made_of({trial, trial_of("baseline", 0, {1.0})});
  const json result = made;
  EXPECT_EQ(cell_of(result, "no_sync")["host_reads_back"], "the first token");
  EXPECT_FALSE(cell_of(result, "baseline").contains("host_reads_back"));
  EXPECT_THAT(report::result_markdown(made, {}, {}),
              HasSubstr("the host waits for the GPU, to read the first token"));
}

TEST(Result, SaysHowManyMicroBatchesHaveWhatIsDeclared) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0});
  trial.ledger.declared_micro_batches = 2;
  const auto made = made_of({trial, trial_of("baseline", 0, {1.0})});
  const json result = made;
  EXPECT_EQ(cell_of(result, "no_sync")["declared_micro_batches"], 2);
  EXPECT_FALSE(cell_of(result, "baseline").contains("declared_micro_batches"));
  EXPECT_THAT(report::result_markdown(made, {}, {}), HasSubstr("Declared, not run: 2 of the 4"));
}

TEST(Result, TheAccountIsThatOfTheTrialFarthestFromEqual) {
  TrialRecord first = trial_of("no_sync", 0, {1.0});
  first.account = results::TrialAccount{"equal", "a", 0.999, 1.0005, 1e-7, 1, 1, 1e-7, 8, 6};
  TrialRecord second = trial_of("no_sync", 1, {1.0});
  second.account = results::TrialAccount{"equal", "b", 0.9999, 1.002, 1e-7, 1, 1, 1e-7, 8, 6};
  TrialRecord later = trial_of("no_sync", 2, {1.0});
  later.account_why_not = "the cell's first round of the launch has it";
  const json cell = cell_of(result_of({first, second, later}), "no_sync");
  EXPECT_EQ(cell["account"]["verdict"], "b");
  EXPECT_EQ(cell["account"]["weight_max"], 1.002);
  EXPECT_FALSE(cell["null_reasons"].contains("account"));
}

TEST(Result, WithoutAnAccountTheFirstReasonIsGiven) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0});
  EXPECT_EQ(cell_of(result_of({trial}), "no_sync")["null_reasons"]["account"], "not recorded");
  trial.account_why_not = "folded";
  const json cell = cell_of(result_of({trial}), "no_sync");
  EXPECT_TRUE(cell["account"].is_null());
  EXPECT_EQ(cell["null_reasons"]["account"], "folded");
}

TEST(Result, AnExampleIsOneOfAllMicroBatchesAndRanks) {
  const json cell = cell_of(result_of({trial_of("no_sync", 0, {1.6})}), "no_sync");
  EXPECT_DOUBLE_EQ(cell["sample_s"]["mean"], 1.6 / (4 * 16 * 2));
  TrialRecord trial = trial_of("no_sync", 0, {1.6});
  trial.cell = trial.cell.without({"micro_batch_size"});
  const json unsaid = cell_of(result_of({trial}), "no_sync");
  EXPECT_TRUE(unsaid["sample_s"].is_null());
  test::expect_phrases("summary", {unsaid["null_reasons"]["sample_s"].get<std::string>()});
  const json published = cell_of(
      result_of({trial_of("no_sync", 0, {1.6})}, {{"window_rule", "as_published"}}), "no_sync");
  EXPECT_TRUE(published["sample_s"].is_null());
}

TEST(Result, PhasesAndExposedCommunicationAreThoseOfTheSlowestRank) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0, 1.0});
  for (auto& rank : trial.ranks) {
    const bool first = rank.rank == 0;
    rank.step_s = first ? std::vector{1.0, 0.5} : std::vector{0.9, 0.8};
    rank.block_s = first ? 1.5 : 1.7;
    rank.exposed_comm_s = first ? std::vector{0.1, 7.0} : std::vector{0.3, 0.5};
    rank.phase_s = {{"forward", first ? std::vector{0.2, 7.0} : std::vector{0.9, 0.8}}};
  }
  const json honest = cell_of(result_of({trial}), "no_sync");
  EXPECT_DOUBLE_EQ(honest["exposed_comm_s"], 0.4);
  EXPECT_DOUBLE_EQ(honest["phase_s"]["forward"], honest["step_s"]["mean"]);
  const json published = cell_of(result_of({trial}, {{"window_rule", "as_published"}}), "no_sync");
  EXPECT_DOUBLE_EQ(published["exposed_comm_s"], 3.55);
  EXPECT_DOUBLE_EQ(published["step_s"]["mean"], 0.75);
  EXPECT_TRUE(published["micro_batch_s"].is_null());
}

TEST(Result, PeaksAreTheLargestOfAnyRank) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0});
  trial.ranks[0].peak_allocated_bytes = 100;
  trial.ranks[0].peak_by_category = {{"activation", 100}};
  trial.ranks[0].peak_reserved_estimate_bytes = 4096;
  trial.ranks[1].peak_allocated_bytes = 300;
  trial.ranks[1].peak_by_category = {{"activation", 120}, {"communication", 180}};
  trial.ranks[1].peak_reserved_estimate_bytes = 2048;
  const json cell = cell_of(result_of({trial}), "no_sync");
  EXPECT_EQ(cell["peak_allocated_bytes"], 300);
  EXPECT_EQ(cell["peak_by_category"], json({{"activation", 120}, {"communication", 180}}));
  EXPECT_EQ(cell["peak_reserved_estimate_bytes"], 4096);
  EXPECT_TRUE(cell["peak_reserved_bytes"].is_null());
  EXPECT_FALSE(cell["null_reasons"].contains("peak_by_category"));
}

TEST(Result, WhereNobodyAskedWhatFitsReservedMemoryIsNotEstimated) {
  TrialRecord trial = trial_of("no_sync", 0, {1.0});
  trial.ranks[0].peak_allocated_bytes = 100;
  const json cell = cell_of(result_of({trial}), "no_sync");
  EXPECT_TRUE(cell["peak_reserved_estimate_bytes"].is_null());
  test::expect_phrases("summary",
                       {cell["null_reasons"]["peak_reserved_estimate_bytes"].get<std::string>()});
}

TEST(Result, ATrialThatRanOutOfMemoryHasItsPrediction) {
  TrialRecord trial = failed_trial("no_sync", 0, Status::Oom, "micro-batch 1, forward");
  trial.oom_place = {1, "forward", ""};
  trial.predicted_peak_allocated_bytes = 300;
  trial.predicted_peak_by_category = {{"activation", 120}, {"other", 180}};
  const json cell = cell_of(result_of({trial}), "no_sync");
  EXPECT_TRUE(cell["peak_allocated_bytes"].is_null());
  EXPECT_EQ(cell["oom_place"], json({{"micro_batch", 1}, {"phase", "forward"}}));
  EXPECT_EQ(cell["predicted_peak_allocated_bytes"], 300);
  EXPECT_EQ(cell["predicted_peak_by_category"], json({{"activation", 120}, {"other", 180}}));
  EXPECT_FALSE(cell["null_reasons"].contains("predicted_peak_allocated_bytes"));
}

TEST(Result, WhatNoTrialSaidOfAModelTheSuiteKnows) {
  const auto timing_of = [](const char* model) {
    TrialRecord trial = failed_trial("no_sync", 0, Status::Failed, "gone");
    trial.model_info.reset();
    json cell = trial.cell.written();
    cell["model"] = model;
    trial.cell = results::Parameters(cell);
    return result_of({trial})["cells"][0]["timing"];
  };
  EXPECT_EQ(timing_of("paced_bert_base_t4"), "paced");
  EXPECT_EQ(timing_of("recorded.json"), "paced");
  EXPECT_EQ(timing_of("paced_by_hand"), "real");
  EXPECT_EQ(timing_of("bert_tiny"), "real");
}

TEST(Result, CountsThatDifferBetweenTrialsAreNotAveraged) {
  TrialRecord other = trial_of("no_sync", 1, {1.0});
  other.ledger.per_step["all_reduce"].count = 15;
  const json cell = cell_of(result_of({trial_of("no_sync", 0, {1.0}), other}), "no_sync");
  EXPECT_TRUE(cell["collectives_per_step"].is_null());
}

TEST(Result, CellsComeInThePlansOrderWhateverRanFirst) {
  const json plan = {{"cells", {{"model", {"mlp", "bert_mini"}}}}};
  std::vector<TrialRecord> trials;
  for (const char* model : {"bert_mini", "mlp"}) {
    for (const char* strategy : {"accumulate", "no_sync", "baseline"}) {
      trials.push_back(sample_trial("", sample_cell("1x2", strategy, model), 0, {1.0}));
      trials.back().order = static_cast<int>(trials.size());
    }
  }
  std::reverse(trials.begin(), trials.end());  // as a resumed run may hold them
  std::string order;
  const json result = result_of(trials, plan);
  for (const json& cell : result["cells"]) {
    order += cell["cell"]["model"].get<std::string>() + " " +
             cell["cell"]["strategy"].get<std::string>() + "; ";
  }
  EXPECT_EQ(order,
            "mlp baseline; mlp no_sync; mlp accumulate; "
            "bert_mini baseline; bert_mini no_sync; bert_mini accumulate; ");
}

TEST(Result, TheSameTrialsGiveTheSameBytes) {
  const auto run = test::sample_run();
  EXPECT_EQ(json(build_result(run.context, run.plan, run.trials)).dump(),
            json(build_result(run.context, run.plan, run.trials)).dump());
}

}  // namespace
}  // namespace gradsync::summary
