// What a sweep over accumulation_steps says of all its cells at once: the law of stats/step_law.h,
// fitted across the strategies.
#pragma once

#include <vector>

#include "harness/results/result.h"

namespace gradsync::summary {

// Returns the law of each set of cells of one part that differ in strategy and accumulation_steps
// alone, where at least three accumulations have times and the strategies tell the costs apart.
// Wrappers ddp and fsdp alone: what else synchronizes does so by other rules.
std::vector<results::Law> step_laws(const std::vector<results::CellResult>& cells);

}  // namespace gradsync::summary
