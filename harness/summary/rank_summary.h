// What the ranks of a cell's trials have to tell beside the time of the slowest: how long each
// stood idle, how far apart their parameters are, and how far their batch normalization has
// drifted. Pure functions of records.
#pragma once

#include <optional>
#include <vector>

#include "harness/results/result.h"

namespace gradsync::summary {

// Returns, by rank, which share of its timed steps a rank spent in phase "wait", where it has no
// computation of its own left: over all steps of all trials, 0 to 1. Empty where a rank's phases
// were not recorded.
std::vector<double> idle_share_by_rank(const std::vector<const results::TrialRecord*>& trials);

// Returns, step by step from a common start, the largest distance of any rank in any trial
// (results::RankRecord::parameter_distance). Empty where none was measured.
std::vector<double> largest_parameter_distance(
    const std::vector<const results::TrialRecord*>& trials);

// Returns the spread of batch normalization's statistics over the ranks of a trial; nothing where
// fewer than two ranks have any, or not all numbers are finite.
std::optional<results::StatisticsSpread> statistics_spread(const results::TrialRecord& trial);

}  // namespace gradsync::summary
