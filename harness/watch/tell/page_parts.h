// The sentences on a watched job that the page of a terminal and the HTML page share.
#pragma once

#include <optional>
#include <string>

#include "harness/text/text_table.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

// "2 of 2 ranks, DistributedDataParallel; rank 0: 6 steps, mostly of 4 micro-batches"
std::string cast_line(const Watched& watched);

// Returns the collectives of a step: now and, where it is known what would be enough, that and the
// excess; by axis where there are several. Nothing where it has none.
std::optional<text::TextTable> step_table(const TypicalStep& typical, bool knows_enough);

// "0.512 s per step (median of 8 steps), of which 0.301 s (59 %) wait for the excess"; "" where no
// time is known.
std::string times_sentence(const TypicalStep& typical);

// Returns what ran on a GPU, in a step or, where no step is known there, in all that was recorded
// of the lowest rank: "on its GPU a step communicates for 0.0200 s: 0.0050 s while it computes, and
// 0.0150 s exposed; all_reduce 5 of 5 (25.3 MiB) is exposed most, for 0.0060 s; the others wait for
// rank 1"; "" where that is not known, or it does not communicate.
std::string gpu_sentence(const Watched& watched);

// Returns what was seen where nothing was judged: "seen of rank 0: 40 backwards, 10 optimizer steps
// and 40 reductions (650.0 KiB)"; "" where a verdict says it, or no process was seen.
std::string seen_sentence(const Watched& watched);

// Returns "tensors held at most 25.0 KiB (25600 bytes) on every rank", or why that is not known; ""
// where the reason is kNotCounted.
std::string peak_sentence(const Watched& watched);

}  // namespace gradsync::watch
