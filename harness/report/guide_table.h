// The guide's own table: a row per topology, a column per strategy, seconds per batch.
//
// "Batch" is the guide's word for what is a step everywhere else here: one optimizer step of
// accumulation_steps micro-batches. Source: Accelerate's guide "Gradient Synchronization", section
// "Just how much of a slowdown is there"; its raw runs lie in results/reference/.
#pragma once

#include <optional>

#include "harness/report/published.h"
#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns the table under its title, or nothing for a part that has no two of the guide's four
// strategies, or in which accumulation_steps vary. Where the part is the twin of the guide's
// machines (paced_bert_base_t4 on t4_2x1 and t4_1x2) and there is a `reference`, each measured row
// that trains as the guide's runs did (4 micro-batches, DDP's defaults) is followed by the
// published one and by whether the measured mean lies inside the 95 % interval of the published
// runs; below the table stands the mean absolute error over all cells. Where the part is the
// guide's training on another machine (bert_base, 16 examples of lengths mrpc) the published row
// follows and nothing is compared.
text::Blocks guide_table(const summary::PartView& part,
                         const std::optional<PublishedSlowdowns>& reference);

}  // namespace gradsync::report
