// One part of two runs side by side: times, slowdowns, collectives.
#pragma once

#include <string>
#include <vector>

#include "harness/summary/run_comparison.h"

namespace gradsync::report {

// Returns three tables and what is to be said below each, of the cells of one part; `context` is
// that of the first run. Where no cell has a ratio of times, the table of times is left out and its
// place says why. A run in which a trial of a cell failed shows its status, no numbers.
std::string comparison_tables(const results::Context& context,
                              const std::vector<summary::ComparedCell>& cells);

}  // namespace gradsync::report
