// Ranks that stay up and run trials on request: builds that take turns on the same cores must not
// start anew for each turn.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "harness/coordinate/watched_group.h"

namespace gradsync::coordinate {

// Between two trials the ranks wait for their launcher's next word and use no processor time of
// their own. One that dies meanwhile is noticed by the next trial.
class ResidentRanks {
 public:
  // Starts all ranks of runnable.spec.topology and returns once each of them has made and settled
  // every cell of runnable.spec.trials, the only ones that run() may name, or when they have
  // failed. `tick` is called several times a second by everything here that blocks, and may throw;
  // may be empty. Errors: as run_launch.
  ResidentRanks(RunnableLaunch runnable, std::function<void()> tick);
  ResidentRanks(const ResidentRanks&) = delete;
  ResidentRanks& operator=(const ResidentRanks&) = delete;

  // Why the ranks are gone; nothing: they are up.
  const std::optional<Failure>& failure() const { return failure_; }

  // Runs `trial` in ranks that are up, and returns its record. Blocks; a hang is noticed as by
  // run_launch. A failure of a rank becomes the record's status and reason, and the ranks are gone.
  // Errors: as run_launch.
  results::TrialRecord run(const plan::Trial& trial);

 private:
  // Takes what comes until `done`, or until the ranks have failed and are gone.
  void wait_until(const std::function<bool()>& done);

  const RunnableLaunch runnable_;
  std::function<void()> tick_;
  std::optional<results::TrialRecord> record_;  // of the trial that ended last
  std::optional<Failure> failure_;
  std::unique_ptr<WatchedGroup> group_;
};

}  // namespace gradsync::coordinate
