// The backwards of a trace, and what they tell of the forwards before them.
//
// Where a file names no models, these are told apart by the sizes of the gradients that they
// accumulate. Whether a forward ran under no_sync is told by what DDP copies in the backward behind
// it, and that gradients were cleared by their being new.
#pragma once

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

// Adds to the events of `rank`, which are the forwards, the optimizers and the clearings of `trace`
// by time, its backwards and what is seen between them. Forwards get their model (`object`), and
// "no_sync" where they were told not to synchronize. Notes whether models were told apart by sizes,
// and where that was not possible, whether some forwards ran ahead of the backwards of others.
void add_backwards(const TraceFile& trace, RankEvents& rank);

}  // namespace gradsync::watch
