// The launcher's side of a launch: starts the ranks, deals out the trials, watches, gathers, and
// goes on after a rank has died, hung or run out of memory.
//
// No torch here: the launcher stays small and cannot be hurt by what a rank does.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/launch/rank_group.h"
#include "harness/results/records.h"
#include "harness/run/launch_spec.h"

namespace gradsync::run {

// Raised when the user interrupts; finished trials are already recorded.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

struct LaunchJob {
  std::string part;
  LaunchSpec spec;  // the trials still to run
  // Starts all ranks of spec.topology afresh. Errors: EnvironmentError; CommError where a host is
  // gone.
  std::function<std::unique_ptr<launch::RankGroup>()> start_ranks;
  int usable_cpus = 1;  // more real-compute ranks than this: times are not valid
  const std::atomic<bool>* interrupted = nullptr;  // polled; may be null
};

struct LaunchCallbacks {
  std::function<void(const results::TrialRecord&)> trial_ended;  // in the order trials end
  // Several times a second while `trial` runs; may be empty.
  std::function<void(const plan::Trial& trial, const launch::RankGroup& group)> tick;
};

// Runs every trial of the job, each exactly once, and reports every one of them: a rank's failure
// becomes the status of the trial it happened in, and the rest runs in a fresh group of ranks.
// Blocks. A hang is noticed timeout_s after the last sign of life of any rank, plus two seconds.
// Errors: Interrupted; ConfigError, EnvironmentError and InternalError that a rank reported, since
// they would hit every other trial too; whatever start_ranks throws.
void run_launch(const LaunchJob& job, const LaunchCallbacks& callbacks);

}  // namespace gradsync::run
