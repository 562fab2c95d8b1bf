// How far the batch normalization of the ranks has drifted apart: a pure function of what each
// rank's layers remember.
#pragma once

#include <optional>

#include "harness/results/records.h"

namespace gradsync::report {

// The widest channel counts. Equal statistics: 0 and 1. That ranks agree does not say that they
// are right: rank 0's statistics, broadcast to all, are of rank 0's examples.
struct StatisticsSpread {
  // Between two ranks' running means, in standard deviations: the root of the ranks' mean running
  // variance, which is what a layer divides by.
  double mean_gap = 0;
  double variance_ratio = 1;  // the largest running variance over the smallest
};

// Returns the spread over the ranks of a trial; nothing where fewer than two ranks have statistics,
// or not all numbers are finite.
std::optional<StatisticsSpread> statistics_spread(const results::TrialRecord& trial);

}  // namespace gradsync::report
