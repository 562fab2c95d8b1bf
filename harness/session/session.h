// One run of a plan from first launch to written results: the launcher's main loop.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/coordinate/coordinator.h"
#include "harness/launch/agents.h"
#include "harness/launch/host.h"
#include "harness/results/result.h"
#include "harness/results/store.h"
#include "harness/session/context.h"
#include "harness/session/run_options.h"
#include "harness/session/runnable_launches.h"
#include "harness/text/progress.h"

namespace gradsync::session {

class Session {
 public:
  // Takes the output directory; with --resume reads what is already there. `context` is
  // make_context()'s. `agents` host the ranks where an outside launcher started the program; null:
  // the ranks are this process's children. Errors: ConfigError, ResultsError.
  Session(const RunOptions& options, plan::Plan plan, RunContext context, launch::Agents* agents);

  // Runs every trial that has no lasting outcome yet. Every trial is on disk when this returns or
  // throws. Errors: run::Interrupted, ConfigError, EnvironmentError, ResultsError, InternalError.
  void run();

  // Runs a launch with the one trial of a plan of one cell, `cell` under the counts of `part`, and
  // returns its record, which is then on disk. Says nothing while it runs. Errors: as run().
  const results::TrialRecord& run_alone(const plan::Part& part, const plan::Cell& cell);

  // Runs launch number `launch` of `part` with these of its cells. Says nothing while it runs.
  // Errors: as run().
  void run_some(const plan::Part& part, const std::vector<plan::Cell>& cells, int launch);

  // Returns the predicted peak memory of a rank that runs `cell`, in bytes; nothing: there is no
  // prediction. Errors: ConfigError for a bad profile.
  std::optional<std::int64_t> predicted_peak(const plan::Part& part, const plan::Cell& cell) const;

  // Writes result.json with `status` as its exit status, and returns it; nothing is printed.
  results::Result close(ExitStatus status);

  // Closes, writes benchmark.json, table.md and the plots (none after an interruption), and prints
  // the result.
  void finish(ExitStatus status);

  const std::string& directory() const { return directory_; }
  const std::vector<results::TrialRecord>& trials() const { return trials_; }
  results::Context context() const;

 private:
  void resume_earlier();
  void run_one(const plan::Launch& launch);
  // Says how long these will take, as far as it is known.
  void announce_length(const std::vector<plan::Launch>& launches) const;
  // Shows the progress of `planned`. Trials that are not planned are not shown.
  void show_progress_of(std::vector<text::PlannedTrial> planned);
  // Returns why this cell cannot run here; empty: it can.
  std::string obstacle_to(const plan::Launch& launch, const plan::Cell& cell) const;
  // Returns what runs `trials`; nothing, with the trials recorded as skipped, where this
  // machine cannot make its network.
  std::optional<coordinate::RunnableLaunch> runnable(const plan::Launch& launch,
                                                     const std::vector<plan::Trial>& trials);
  void record(const results::TrialRecord& ended);
  void warn_about_weights(const results::TrialRecord& trial);
  void write_result(const results::Result& result);
  void note_steal();
  void note_throttling();
  void read_loaded_gpus();

  RunOptions options_;
  plan::Plan plan_;
  RunContext context_;
  launch::Agents* agents_;
  launch::StealMeter steal_;
  std::string directory_;
  std::unique_ptr<results::TrialLog> log_;
  std::vector<results::TrialRecord> trials_;
  std::set<std::string> done_;
  std::set<std::string> warned_about_weights_;  // models
  RunnableLaunches launches_;
  std::unique_ptr<text::Progress> progress_;
  std::size_t progress_index_ = 0;  // trials recorded by this process
};

}  // namespace gradsync::session
