// Sums of held counts.
#pragma once

#include <map>
#include <string>

#include "harness/gate/held_counts.h"

namespace gradsync::gate {

// Returns the collectives of a step, by operation: those of its micro-batches and those outside.
std::map<std::string, OpTotal> totals_of(const RankCounts& rank);

std::int64_t micro_batches_of(const RankCounts& rank);

// "all_reduce 4 (2704 bytes), broadcast 1 (64 bytes)"
std::string totals_text(const std::map<std::string, OpTotal>& totals);

}  // namespace gradsync::gate
