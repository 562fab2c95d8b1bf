// The steps of a watched job one by one, as far as all its ranks have ended them.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/watch/judge/series.h"
#include "harness/watch/read/event.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

// One optimizer step of the lowest rank.
struct WatchedStep {
  std::int64_t pid = 0;  // tells a job that was started again from the first one
  std::int64_t end_ns = 0;
  double step_s = 0;  // from the end of the optimizer before
  int micro_batches = 0;
  int synchronized = 0;  // of these
  bool is_skipped = false;
  OpSums collectives;
  Series series;  // of this step; `steps` is its number, from 1
};

// Returns the processes with only those steps to which none of them can add any more: the final
// steps of a job that still runs. Empty where there is no such step.
std::vector<RankEvents> steps_for_good(std::vector<RankEvents> processes);

// Returns all steps of a job, in their order.
std::vector<WatchedStep> watched_steps(const std::vector<RankEvents>& processes);

}  // namespace gradsync::watch
