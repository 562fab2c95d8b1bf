// The launcher's side of a launch: starts the ranks, deals out the trials, watches, gathers, and
// goes on after a rank has died, hung or run out of memory.
//
// No torch here: the launcher stays small and cannot be hurt by what a rank does.
#pragma once

#include <functional>

#include "harness/coordinate/watched_group.h"

namespace gradsync::coordinate {

struct LaunchCallbacks {
  std::function<void(const results::TrialRecord&)> trial_ended;  // in the order trials end
  // Several times a second while `trial` runs; may be empty.
  std::function<void(const plan::Trial& trial, const launch::RankGroup& group)> tick;
};

// Runs every trial of the launch, each exactly once, and reports every one of them: a rank's
// failure becomes the status of the trial it happened in, and the rest runs in a fresh group of
// ranks. Blocks. A hang is noticed timeout_s after the last sign of life of any rank, plus two
// seconds. Errors: Interrupted; ConfigError, EnvironmentError and InternalError that a rank
// reported, since they would hit every other trial too; whatever start_ranks throws.
void run_launch(const RunnableLaunch& runnable, const LaunchCallbacks& callbacks);

}  // namespace gradsync::coordinate
