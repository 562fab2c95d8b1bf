// The table of a part that is about memory: what each way to accumulate holds, and whether it fits.
#pragma once

#include <string>

#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns the table: a row per cell, grouped by sharding, with its time, the peak of a rank's
// tensors, the peak that was predicted for it and whether it fits. A column that would say nothing
// is left out: of parameters that all rows share, of times or predictions that no row has, of
// verdicts where there is no budget and all went well.
text::Blocks memory_table(const summary::PartView& part);

// "fits" within a budget, "ok" without one, "oom, backward 2", "failed" and the like.
std::string verdict_text(const results::CellResult& cell);

}  // namespace gradsync::report
