// One part of two runs side by side: times, slowdowns, collectives.
#pragma once

#include <string>

#include "harness/report/part_view.h"

namespace gradsync::report {

// Returns three tables and what is to be said below each. The cells of `part` are those of
// compare_runs() (run_comparison.h). Where no cell has a ratio of times, the table of times is left
// out and its place says why. A run in which a trial of a cell failed shows its status, no numbers.
std::string comparison_tables(const PartView& part);

}  // namespace gradsync::report
