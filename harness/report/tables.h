// The tables of a run's page and the notes below them: one function each, in a file of its name.
// summary/part_view.h says what they know about a part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/published.h"
#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns a line that says what the columns mean, the table with a row per cell of what it cost and
// what it sent, and for a scaled part the full-size bytes. A column appears only if it says
// something; a cell without numbers says its status.
text::Blocks detail_table(const summary::PartView& part);

// Returns the table of a part that is about memory: a row per cell, grouped by sharding, with its
// time, the peak of a rank's tensors, the peak that was predicted for it and whether it fits.
// Columns without information are left out: parameters that all rows share, times or predictions
// that no row has, verdicts if there is no budget and all went well.
text::Blocks memory_table(const summary::PartView& part);

// "fits" within a budget, "ok" without one, "oom, backward 2", "failed" and the like.
std::string verdict_text(const results::CellResult& cell);

// Returns the lines below a table: what an interval means, and why a row has no numbers; none if
// there is nothing to say.
text::Bullets notes(const summary::PartView& part);

// Returns a table of the part's rows: median, 5 and 95 % quantiles and the largest of the slowest
// rank's steps; where a row has a bound (summary/lower_bound.h), also the bound and s/step over it.
// Its head says what they are. Nothing where no row has a time.
text::Blocks spread_table(const summary::PartView& part);

// Returns for each Pareto front of the part what it consists of and the fastest way to train within
// a budget of memory: a row per way on the front, from the one that holds least.
text::Blocks front_tables(const summary::PartView& part);

// Returns exposed communication by its cause: how much of a step was own compute, waited for a late
// peer, or waited for the wire (summary/attribution.h). A line says what the columns mean; the
// table has a row per cell that communicates, in means over the ranks. Nothing where no such cell
// has an attribution.
text::Blocks attribution_table(const summary::PartView& part);

// Returns a page with such a table for each cell of `result`, one row per collective and rank: what
// hid it, and how long the rank waited for it. Two more rows per rank make it whole: what was
// computed with nothing in flight, and the step. Cells without an attribution say why.
std::string attribution_page(const results::Result& result);

// Returns the guide's own table under its title: a row per topology, a column per strategy, seconds
// per batch, which is the guide's word for what is a step everywhere else here: one optimizer step
// of accumulation_steps micro-batches. Nothing for a part that has no two of the guide's four
// strategies, or in which accumulation_steps vary. Where the part is the twin of the guide's
// machines (paced_bert_base_t4 on t4_2x1 and t4_1x2) and there is a `reference`, each measured row
// that trains as the guide's runs did (4 micro-batches, DDP's defaults) is followed by the
// published one and by whether the measured mean lies inside the 95 % interval of the published
// runs; below the table stands the mean absolute error over all cells. Where the part is the
// guide's training on another machine (bert_base, 16 examples of lengths mrpc) the published row
// follows and nothing is compared. Source: Accelerate's guide "Gradient Synchronization", section
// "Just how much of a slowdown is there"; its raw runs lie in results/reference/.
text::Blocks guide_table(const summary::PartView& part,
                         const std::optional<PublishedSlowdowns>& reference);

// Returns the guide's second table, beside one rank of the world that it was measured on: a table
// with its verdict for each setting (all but strategy and accumulation) of mixtral_8x7b under FSDP
// on 8 ranks, whatever part its rows are in; nothing for a run without one, or without a
// `reference`.
//
// Published are three rows: what fits, and that 69G were taken. Not published are dtype, optimizer,
// sequence length and what the 69G count. So the rows here rest on stated hypotheses, and the
// verdict is "consistent with" or "differs from", never "equal". Whether a row fits must agree with
// what was published. A published number agrees where the peak allocated is no more: above the peak
// lies what is not counted here (other buffers than tensors, a GPU's context, more tokens), for
// which there is no upper bound. Source: the same guide, section "no_sync requires additional GPU
// memory when using FSDP".
text::Blocks guide_memory_table(const std::vector<summary::PartView>& parts,
                                const std::optional<PublishedMemory>& reference);

}  // namespace gradsync::report
