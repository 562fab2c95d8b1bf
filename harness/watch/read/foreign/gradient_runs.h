// The runs of autograd in a trace, and what their operators tell of the gradients that they
// accumulate.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

struct GradientRun {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t thread = 0;
  int gradients = 0;             // that it accumulated
  bool adds = false;             // some of these to one that was there before
  bool copies = false;           // into DDP's buckets, or there already: DDP reduces them
  bool copies_for_hook = false;  // the same for a communication hook
  bool reduces_shards = false;   // FSDP does, behind its backward,
  bool adds_shards = false;      // and adds them to those that were there before
  std::uint64_t sizes = 0;       // a hash of the sizes of its gradients; 0: not told
  // An operator behind it, before the next forward or optimizer's step, that may read a gradient or
  // change a parameter; empty: none does.
  std::string_view touched_by;

  bool is_new() const { return gradients > 0 && !adds; }
};

// Returns whether a range is one of those that torch opens around the forward of a wrapped model.
bool is_forward(const TracedRange& range);

// Returns the thread that runs forwards and optimizers; 0 where there is neither.
std::int64_t training_thread(const TraceFile& trace);

// Returns the runs of autograd in `trace`, by time. Where the trace has Python's functions these
// are its calls of backward; else nodes of one run follow each other on their threads with nothing
// between them on the thread that trains.
std::vector<GradientRun> gradient_runs(const TraceFile& trace);

// Where a file names no models, the sizes of the gradients that they accumulate identify them. What
// DDP copies in the backward behind a forward shows whether that ran under no_sync. New gradients
// show that the old ones were cleared.
//
// Adds to the events of `rank`, which are the forwards, the optimizers and the clearings of `trace`
// by time, its backwards and what is seen between them. Forwards get their model (`object`), and
// "no_sync" where synchronization was off. Notes whether sizes identified the models and, where
// that was not possible, whether some forwards ran ahead of the backwards of others.
void add_backwards(const TraceFile& trace, RankEvents& rank);

}  // namespace gradsync::watch
