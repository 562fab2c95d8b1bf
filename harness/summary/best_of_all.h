// The fastest way to train the same model on the same machines: across strategies and those options
// that change how a step communicates and not what it trains on.
//
// Every cell passed the same checks of what it communicates, was measured in the same rounds and
// synchronizes before the optimizer steps. Compressed gradients are rounded, so the fastest cell
// that sends whole gradients has an entry of its own.
#pragma once

#include <vector>

#include "harness/plan/cell.h"
#include "harness/results/result.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// Returns the options of that kind.
const std::vector<plan::Axis>& communication_options();

// Returns for each set of DDP's cells of one part that differ in strategy and options alone, where
// options vary and one setting has all at their defaults, the fastest of all, and where that
// compresses gradients the fastest that does not. `cells`: one for each group.
std::vector<results::Best> best_of_all(const std::vector<CellGroup>& groups,
                                       const std::vector<results::CellResult>& cells);

}  // namespace gradsync::summary
