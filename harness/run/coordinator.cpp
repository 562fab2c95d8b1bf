#include "harness/run/coordinator.h"

namespace gradsync::run {
namespace {

// Runs `remaining` in one group of ranks until every trial has ended, or until the group has
// failed; returns the cause then, and leaves those that have not ended.
std::optional<Failure> run_in_one_group(const LaunchJob& job, const LaunchCallbacks& callbacks,
                                        std::vector<plan::Trial>& remaining) {
  LaunchSpec spec = job.spec;
  spec.trials = remaining;
  WatchedGroup group(job, spec, callbacks.trial_ended);
  group.await(remaining);
  std::optional<Failure> failure;
  while (!failure && !group.awaited().empty()) {
    if (callbacks.tick) callbacks.tick(group.awaited().front(), group.ranks());
    failure = group.advance();
  }
  remaining = group.awaited();
  return failure;
}

}  // namespace

void run_launch(const LaunchJob& job, const LaunchCallbacks& callbacks) {
  std::vector<plan::Trial> remaining = job.spec.trials;
  while (!remaining.empty()) {
    const std::optional<Failure> failure = run_in_one_group(job, callbacks, remaining);
    if (!failure) continue;
    throw_if_general(*failure);
    // Ranks that never began a trial would not begin the next one either.
    const bool before_first = failure->order < 0;
    while (!remaining.empty()) {
      callbacks.trial_ended(failed_record(job, remaining.front(), *failure));
      remaining.erase(remaining.begin());
      if (!before_first) break;
    }
  }
}

}  // namespace gradsync::run
