// The step that stands for most steps of a rank: verdicts and reports use its numbers.
#pragma once

#include <optional>
#include <vector>

#include "harness/watch/judge/steps/counts.h"

namespace gradsync::watch {

using Counted = std::vector<const StepCounts*>;

// A rank's steps of the shape that most of them have: most synchronize never, once or more often,
// and most of those so often in so many micro-batches.
struct UsualStep {
  int micro_batches = 0;
  int synchronized = 0;
  Counted all;                          // of this shape, in order
  const StepCounts* example = nullptr;  // the last of those whose collectives most of them have
};

// Returns the usual among the steps that were not skipped, or nothing where there is none. Steps
// without a wrapped model are left out where there are others, and so is the first step: DDP
// arranges its buckets in it.
std::optional<UsualStep> usual_step(const std::vector<StepCounts>& counts);

// Returns those that no gradient scaler skipped, in order.
Counted not_skipped(const std::vector<StepCounts>& counts);

}  // namespace gradsync::watch
