// The guide's second table, beside one rank of the world that it was measured on.
//
// Published are three rows: what fits, and that 69G were taken. Not published are dtype, optimizer,
// sequence length and what the 69G count. So the rows here rest on hypotheses, which are named, and
// the verdict is "consistent with" or "differs from", never "equal".
// Source: Accelerate's guide "Gradient Synchronization", section "no_sync requires additional GPU
// memory when using FSDP".
#pragma once

#include <optional>
#include <vector>

#include "harness/report/published.h"
#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns the table with its verdict, one for each setting (all but strategy and accumulation) of
// mixtral_8x7b under FSDP on 8 ranks, whatever part its rows are in; nothing for a run without one,
// or without a `reference`.
// Whether a row fits must agree with what was published. A published number agrees where the peak
// allocated is no more: above the peak lies what is not counted here (other buffers than tensors, a
// GPU's context, more tokens), for which there is no upper bound.
text::Blocks guide_memory_table(const std::vector<summary::PartView>& parts,
                                const std::optional<PublishedMemory>& reference);

}  // namespace gradsync::report
