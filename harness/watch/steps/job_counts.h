// One optimizer step of a watched job in the terms in which trials are compared (harness/gate/).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/results/records.h"
#include "harness/watch/events/event.h"

namespace gradsync::watch {

// Puts into `trial` what each process communicated in the step with this index, from 0: the
// collectives of its micro-batches in their order, those outside of them as of micro-batch -1, and
// their sums on the lowest rank. A size that is not known is -1. `processes` must be those of the
// job's ranks, by rank; `who` is whose they are, for messages.
// Errors: ConfigError where the steps up to it cannot be told apart, because several optimizers
// step together.
void count_step(const std::vector<RankEvents>& processes, std::size_t step, const std::string& who,
                results::TrialRecord& trial);

// Returns the processes with what they did in their first `steps` steps alone.
std::vector<RankEvents> first_steps(std::vector<RankEvents> processes, std::size_t steps);

}  // namespace gradsync::watch
