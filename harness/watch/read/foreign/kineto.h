// The events of a job and of each of its ranks, as the watcher would have recorded them, from
// traces of torch.profiler's: one of each rank.
//
// Everything of a step has its range there: the wrapper's forward, each node of a backward,
// collectives of c10d, the optimizer. Such a file lacks what the Python hook asks of torch. The
// operators show it instead:
//
//   which model     as with_stack=True names modules; else by the sizes of the gradients that a
//                   backward accumulates, where each adds to those of the one before
//   no_sync         DDP copies each gradient into its bucket in the node that accumulates it. Where
//                   gradients are new and nothing is copied, synchronization was off
//   comm_hook       what copies for a hook of the job's has a name of its own
//   clearings       a backward whose gradients are new although its model had some
//   reads, changes  an operator between micro-batches that takes a tensor of a gradient's size: it
//                   may do so (kUnclear)
//
// Sources: torch/csrc/distributed/c10d/reducer.cpp (mark_variable_ready_dense),
// torch/csrc/autograd/functions/accumulate_grad.h, torch/autograd/profiler.py.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

// Returns the events of the rank that wrote `trace`, and as its faults what such a file does not
// hold, each a sentence that begins with "not in this file".
RankEvents events_of(const TraceFile& trace);

// Returns the ranks of the job of which `paths` are the files, by rank.
// Errors: ConfigError where one cannot be read or is no trace, where they are of several jobs, and
// where two are of one rank.
std::vector<RankEvents> read_foreign_job(const std::vector<std::string>& paths);

}  // namespace gradsync::watch
