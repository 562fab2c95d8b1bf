// One run of a plan from first launch to written results: the launcher's main loop.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/run_options.h"
#include "harness/base/errors.h"
#include "harness/launch/fabric.h"
#include "harness/report/progress.h"
#include "harness/results/store.h"
#include "harness/run/coordinator.h"

namespace gradsync::cli {

class Session {
 public:
  // Takes the output directory; with --resume reads what is already there.
  // Errors: ConfigError, ResultsError.
  Session(const RunOptions& options, plan::Plan plan);

  // Runs every trial that has no lasting outcome yet. Every trial is on disk when this returns or
  // throws. Errors: run::Interrupted, ConfigError, EnvironmentError, ResultsError, InternalError.
  void run();

  // Writes result.json, benchmark.json, table.md and the plots, and returns the result with its
  // exit status. Called after an interruption too.
  nlohmann::json finish(bool interrupted);

  const std::string& directory() const { return directory_; }

 private:
  void resume_earlier();
  void run_one(const plan::Launch& launch);
  // Returns the network of a topology, made once and kept; null, with the trials recorded as
  // skipped, where this machine cannot make it.
  const launch::Fabric* fabric_for(const launch::Topology& topology, const plan::Launch& launch,
                                   const std::vector<plan::Trial>& trials);
  void record(const results::TrialRecord& trial);
  void write_result(const nlohmann::json& result);

  RunOptions options_;
  plan::Plan plan_;
  nlohmann::json context_;
  std::string directory_;
  std::unique_ptr<results::TrialLog> log_;
  std::vector<results::TrialRecord> trials_;
  std::set<std::string> done_;
  std::map<std::string, std::unique_ptr<launch::Fabric>> fabrics_;  // by topology and scale
  std::unique_ptr<report::Progress> progress_;
  std::size_t progress_index_ = 0;  // trials recorded by this process
};

// Returns the program's exit status for these trials: design.md, section 5.
ExitStatus exit_status_of(const std::vector<results::TrialRecord>& trials);

}  // namespace gradsync::cli
