// Checks a trial's ledger against what its wrapper and strategy declare. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/comm/ledger.h"
#include "harness/results/records.h"
#include "harness/sync/collectives.h"

namespace gradsync::run {

// Returns the totals of a step's collectives, as declared micro-batch by micro-batch.
results::OpCounts expected_of_step(const std::vector<sync::Collectives>& declared);

// Returns the collectives of `step` that the ledger holds, set-up and barriers apart.
results::OpCounts counts_of_step(const std::vector<comm::CommEvent>& events, int step);

// Returns in words that the planned reductions are not of all gradients, whose bytes were counted
// otherwise; "" where they are, or nobody counted. A Reducer that left a parameter out would else
// be held against its own plan.
std::string missing_gradients(const std::vector<std::int64_t>& reductions,
                              const std::optional<std::int64_t>& gradient_bytes);

// Returns the first difference in words, naming micro-batch and operation, or "" where the step's
// events are exactly those declared: operation by operation, in order, size by size.
std::string first_mismatch(const std::vector<sync::Collectives>& declared,
                           const std::vector<comm::CommEvent>& events, int step);

}  // namespace gradsync::run
