#include "harness/coordinate/coordinator.h"

#include <algorithm>

namespace gradsync::coordinate {
namespace {

// Runs `remaining` in one group of ranks until every trial has ended, or until the group has
// failed; returns the cause then, and leaves those that have not ended.
std::optional<Failure> run_in_one_group(const RunnableLaunch& runnable,
                                        const LaunchCallbacks& callbacks,
                                        std::vector<plan::Trial>& remaining) {
  launch::LaunchSpec spec = runnable.spec;
  spec.trials = remaining;
  WatchedGroup group(runnable, spec, callbacks.trial_ended);
  group.await(remaining);
  std::optional<Failure> failure;
  while (!failure && !group.awaited().empty()) {
    if (callbacks.tick) callbacks.tick(group.awaited().front(), group.ranks());
    failure = group.advance();
  }
  remaining = group.awaited();
  return failure;
}

// Records as failed the trial in which the failure was, and takes it out of `remaining`: ranks may
// be a trial apart, and the next one is not to blame. Ranks that never began a trial would not
// begin the next one either, so that all have failed then; and where the failure is of a trial that
// has ended well, the first of them, since one must go for the launch to come to an end.
void fail(const RunnableLaunch& runnable, const LaunchCallbacks& callbacks, const Failure& failure,
          std::vector<plan::Trial>& remaining) {
  const auto end = [&](std::vector<plan::Trial>::iterator trial) {
    callbacks.trial_ended(failed_record(runnable, *trial, failure));
    return remaining.erase(trial);
  };
  if (failure.order < 0) {
    while (!remaining.empty()) end(remaining.begin());
    return;
  }
  const auto of_failure = std::ranges::find(remaining, failure.order, &plan::Trial::order);
  end(of_failure == remaining.end() ? remaining.begin() : of_failure);
}

}  // namespace

void run_launch(const RunnableLaunch& runnable, const LaunchCallbacks& callbacks) {
  std::vector<plan::Trial> remaining = runnable.spec.trials;
  while (!remaining.empty()) {
    const std::optional<Failure> failure = run_in_one_group(runnable, callbacks, remaining);
    if (!failure) continue;
    throw_if_general(*failure);
    fail(runnable, callbacks, *failure, remaining);
  }
}

}  // namespace gradsync::coordinate
