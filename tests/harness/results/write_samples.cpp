// Writes DIR/trials.jsonl and DIR/result.json the way a run does, for schema_test.py: one trial of
// each status, over two launches. And what comparing that run with others gives: with a later one
// of the same machine in DIR/comparison.json, with one of another in DIR/comparison_forbidden.json.
#include "harness/results/store.h"
#include "harness/summary/build_result.h"
#include "harness/summary/run_comparison.h"
#include "tests/harness/results/samples.h"

using nlohmann::json;

namespace gradsync::results {
namespace {

TrialRecord ended(Status status, int launch, const char* strategy) {
  TrialRecord trial = sample_trial(launch);
  trial.cell = trial.cell.with("strategy", strategy);
  trial.status = status;
  if (status == Status::Ok) return trial;
  trial.reason = "rank 1/2 node1: " + to_string(status);
  trial.ledger.matches = false;
  if (status == Status::Invalid) return trial;
  trial.step_s.clear();
  trial.warmup_step_s.clear();
  trial.ranks.clear();
  trial.ledger = {};
  trial.model_info.reset();
  return trial;
}

std::vector<TrialRecord> every_kind() {
  return {ended(Status::Ok, 0, "no_sync"),          ended(Status::Ok, 1, "no_sync"),
          ended(Status::Ok, 0, "baseline"),         ended(Status::Timeout, 1, "baseline"),
          ended(Status::Ok, 0, "accumulate"),       ended(Status::Invalid, 1, "accumulate"),
          ended(Status::Ok, 0, "no_sync_improper"), ended(Status::Ok, 1, "no_sync_improper"),
          ended(Status::Oom, 0, "out_of_memory"),   ended(Status::Failed, 0, "failing"),
          ended(Status::Skipped, 0, "skipped")};
}

// One strategy less, one more.
std::vector<TrialRecord> later_trials() {
  std::vector<TrialRecord> trials = every_kind();
  std::erase_if(trials,
                [](const TrialRecord& trial) { return trial.cell.strategy() == "failing"; });
  trials.push_back(ended(Status::Ok, 0, "new_in_b"));
  return trials;
}

void write_comparison(const std::string& file, const summary::FinishedRun& run, json context,
                      const std::string& field, const json& value) {
  context[field] = value;
  const std::vector<TrialRecord> trials = later_trials();
  const summary::FinishedRun other{"runs/later",
                                   summary::build_result(context, run.result.plan, trials), trials};
  write_atomically(file, json(summary::compare_runs(run, other)).dump(1) + "\n");
}

void write_samples(const std::string& directory) {
  const json plan = {{"schema", "gradsync.plan/1"}, {"name", "sample"}, {"cells", json::object()}};
  const json context = {{"host", "node7"},
                        {"commit", "3f2c1ab"},
                        {"build_type", "Release"},
                        {"cpu_model", "Processor P"},
                        {"timing_valid", true},
                        {"torch", "2.11.0"},
                        {"backend", "gloo"},
                        {"command_line", "gradsync run sample"},
                        {"seed", 42},
                        {"start_time", "2026-01-31T12:00:00Z"},
                        {"end_time", nullptr}};
  const auto trials = every_kind();
  prepare_directory(directory, false, false);
  TrialLog log(directory);
  for (const TrialRecord& trial : trials) log.append(trial);
  const summary::FinishedRun run{directory, summary::build_result(context, plan, trials), trials};
  write_atomically(directory + "/" + kResultFile, json(run.result).dump(1) + "\n");
  write_comparison(directory + "/comparison.json", run, context, "torch", "2.15.0");
  write_comparison(directory + "/comparison_forbidden.json", run, context, "cpu_model",
                   "Processor Q");
}

}  // namespace
}  // namespace gradsync::results

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  gradsync::results::write_samples(argv[1]);
  return 0;
}
