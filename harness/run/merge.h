// Puts the ranks' records of one trial together. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "harness/plan/plan.h"
#include "harness/results/records.h"

namespace gradsync::run {

// Returns the trial's record from the "trial" messages of its ranks, by rank: step_s is the slowest
// rank's, step by step (as_published: rank 0's). Any rank's mismatch makes the trial invalid.
results::TrialRecord merge_ranks(const std::map<int, nlohmann::json>& messages, bool as_published);

}  // namespace gradsync::run
