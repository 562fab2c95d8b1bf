// How many times slower one cell is than another, from pairs that ran side by side.
//
// A pair is the two cells' blocks of the same round of the same launch: same processes, same
// minute, same neighbours. What disturbs both cancels in their ratio, which is why a ratio can be
// known far better than either time. Ratios multiply, so they are averaged as logarithms.
#pragma once

#include <vector>

#include "harness/stats/bootstrap.h"
#include "harness/stats/interval.h"

namespace gradsync::stats {

// The mean step of both cells in one round of one launch, in the same unit, both positive.
struct Pair {
  int launch = 0;
  int round = 0;
  double numerator = 0;
  double denominator = 0;
};

// Returns exp(mean of log(numerator / denominator)), a geometric mean in which every pair counts
// alike, with an interval from the same two-level bootstrap: launches, then pairs inside each.
// Without pairs the value is 0 and `no_interval_because` says so.
// Errors: InternalError where a mean is not positive.
Estimate paired_ratio(const std::vector<Pair>& pairs, const BootstrapOptions& options = {});

}  // namespace gradsync::stats
