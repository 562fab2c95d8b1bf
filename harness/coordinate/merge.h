// Puts the record of one trial together. Pure.
#pragma once

#include <map>

#include "harness/coordinate/rank_messages.h"
#include "harness/plan/plan.h"
#include "harness/results/records.h"

namespace gradsync::coordinate {

// Returns a record that says which trial it is of, and nothing else yet.
results::TrialRecord record_of(const std::string& part, int launch, const plan::Trial& trial);

// Returns `record` with what its ranks say, by rank: step_s is the slowest
// rank's, step by step (as_published: rank 0's). Any rank's mismatch makes the trial invalid, and
// so does an account of their gradients that is off.
results::TrialRecord merge_ranks(results::TrialRecord record,
                                 const std::map<int, TrialDone>& messages, bool as_published);

}  // namespace gradsync::coordinate
