// How far the batch normalization of the ranks has drifted apart: a pure function of what each
// rank's layers remember.
#pragma once

#include <optional>

#include "harness/results/result.h"

namespace gradsync::summary {

// Returns the spread over the ranks of a trial; nothing where fewer than two ranks have statistics,
// or not all numbers are finite.
std::optional<results::StatisticsSpread> statistics_spread(const results::TrialRecord& trial);

}  // namespace gradsync::summary
