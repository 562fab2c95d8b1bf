// Estimates of a plan's length before it starts, from runs that were made before.
#include "harness/session/plan_length.h"
#include "tests/harness/report/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gradsync::session {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
namespace fs = std::filesystem;

json plan_source(const std::vector<int>& accumulations) {
  return {{"schema", "gradsync.plan/1"},
          {"name", "sample"},
          {"cells",
           {{"topology", {"1x2"}},
            {"model", {"mlp"}},
            {"strategy", {"baseline", "no_sync"}},
            {"accumulation_steps", accumulations}}},
          {"steps", 8},
          {"warmup_steps", 2},
          {"launches", 1}};
}

// A step of m micro-batches, s of them synchronized.
double law_s(int micro_batches, int syncs) {
  return 0.5 + 0.25 * micro_batches + 0.125 * syncs;
}

// The run of a plan whose every step took what the law says, and each start `start_s`.
EarlierRun run_of(const json& source, double start_s) {
  EarlierRun run{"results/runs/earlier", "2026-01-02", source, 0, {}};
  for (const plan::Launch& launch : plan::expand(plan::parse_plan(source, "p.json"))) {
    *run.elapsed_s += start_s;
    for (const plan::Trial& trial : launch.trials) {
      results::TrialRecord record;
      record.cell = json(trial.cell);
      record.launch = launch.launch;
      const int m = trial.cell.accumulation_steps;
      const double step_s = law_s(m, trial.cell.strategy == "baseline" ? m : 1);
      record.step_s.assign(static_cast<std::size_t>(trial.steps), step_s);
      record.warmup_step_s.assign(static_cast<std::size_t>(trial.warmup_steps), step_s);
      *run.elapsed_s += step_s * (trial.steps + trial.warmup_steps);
      run.trials.push_back(record);
    }
  }
  return run;
}

std::string sentence(const json& source, const std::vector<EarlierRun>& runs) {
  const plan::Plan plan = plan::parse_plan(source, "p.json");
  return length_sentence(plan, plan::expand(plan), runs);
}

TEST(PlanLength, WithoutAnEarlierRunNothingIsSaidOfIt) {
  test::expect_phrases("session", {sentence(plan_source({2}), {})});
}

TEST(PlanLength, TheSamePlanTakesAsLongAgain) {
  EarlierRun run = run_of(plan_source({2}), 5);
  run.elapsed_s = 130;
  test::expect_phrases("session", {sentence(plan_source({2}), {run})});
}

TEST(PlanLength, OtherwiseItsStepsAreThoseSeen) {
  json more_steps = plan_source({2});
  more_steps["steps"] = 98;  // and 2 of warm-up
  // 100 x (1.25 + 1.125) + 5
  test::expect_phrases("session", {sentence(more_steps, {run_of(plan_source({2}), 5)})});
}

TEST(PlanLength, TheLawTellsWhatWasNotSeen) {
  const double steps_s = 10 * (law_s(2, 2) + law_s(2, 1) + law_s(16, 16) + law_s(16, 1));
  EXPECT_EQ(steps_s, 135);
  test::expect_phrases("session",
                       {sentence(plan_source({2, 16}), {run_of(plan_source({2, 4, 8}), 5)})});
}

TEST(PlanLength, WhatNothingTellsIsNotCounted) {
  json source = plan_source({2});
  source["cells"]["model"] = {"mlp", "bert_tiny"};
  const std::string text = sentence(source, {run_of(plan_source({2}), 5)});
  test::expect_phrases("session", {text});
}

// A step of which micro-batches were passed over does not tell how long a whole one takes, nor the
// other way round.
TEST(PlanLength, StepsThatWereNotWholeTellOfSuchAlone) {
  json untimed = plan_source({8});
  untimed["timed"] = false;
  EarlierRun short_run = run_of(untimed, 5);
  for (results::TrialRecord& trial : short_run.trials) trial.ledger.declared_micro_batches = 5;
  EXPECT_THAT(sentence(plan_source({8}), {short_run}), HasSubstr("is not known"));
  EXPECT_THAT(sentence(untimed, {run_of(plan_source({8}), 5)}), HasSubstr("is not known"));
  untimed["steps"] = 9;
  EXPECT_THAT(sentence(untimed, {short_run}), HasSubstr("2 as measured in earlier runs"));
  untimed["every_micro_batch"] = true;
  EXPECT_THAT(sentence(untimed, {run_of(plan_source({8}), 5)}), HasSubstr("2 as measured"));
}

class EarlierRuns : public testing::Test {
 protected:
  EarlierRuns() { fs::remove_all(folder_); }
  ~EarlierRuns() override { fs::remove_all(folder_); }

  void write(const std::string& name, const json& context, const json& exit_status) {
    fs::create_directories(folder_ / name);
    const json result{{"schema", "gradsync.result/1"},
                      {"context", context},
                      {"plan", {{"name", name}}},
                      {"cells", json::array()},
                      {"exit_status", exit_status}};
    std::ofstream(folder_ / name / "result.json") << result;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "gradsync_plan_length_test";
  const json here_{{"host", "one"},
                   {"cpus_usable", 2},
                   {"device", "cpu"},
                   {"backend", "gloo"},
                   {"threads_per_rank", 1}};
};

TEST_F(EarlierRuns, AreThoseOfThisMachineUnderTheSameConditions) {
  json there = here_;
  there["start_time"] = "2026-01-02T23:59:00Z";
  there["end_time"] = "2026-01-03T00:01:10Z";
  write("alike", there, 0);
  write("going_on", here_, nullptr);
  const json differing{{"host", "two"}, {"backend", "nccl"}, {"cpus_usable", 64}};
  for (const auto& [name, value] : differing.items()) {
    json other = there;
    other[name] = value;
    write("other_" + name, other, 0);
  }
  std::ofstream(folder_ / "no_run") << "a file";
  const auto runs = earlier_runs({folder_}, here_);
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_THAT(runs.front().directory, HasSubstr("alike"));
  EXPECT_EQ(runs.front().day, "2026-01-02");
  EXPECT_EQ(runs.front().elapsed_s, 130);
  EXPECT_THAT(earlier_runs({folder_ / "nowhere"}, here_), IsEmpty());
}

TEST_F(EarlierRuns, OneThatFailedTellsNoLength) {
  json there = here_;
  there["start_time"] = "2026-01-02T23:59:00Z";
  there["end_time"] = "2026-01-03T00:01:10Z";
  write("failed", there, 5);
  const auto runs = earlier_runs({folder_}, here_);
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_FALSE(runs.front().elapsed_s);
}

}  // namespace
}  // namespace gradsync::session
