// Exposed communication by its cause, as tables: what of a step was own compute, what waited for a
// late peer, and what for the wire (attribution.h says what these are).
#pragma once

#include <string>

#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns a line that says what the columns mean and the table, one row per cell that communicates,
// in means over the ranks. Nothing where no such cell has an attribution.
text::Blocks attribution_table(const summary::PartView& part);

// Returns a page with a table for each cell of `result` (schema gradsync.result/1), one row per
// collective and rank: what hid it, and how long the rank waited for it. Two more rows per rank
// make it whole: what was computed with nothing in flight, and the step. Cells without an
// attribution say why.
std::string attribution_page(const results::Result& result);

}  // namespace gradsync::report
