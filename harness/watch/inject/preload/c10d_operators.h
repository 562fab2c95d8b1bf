// Collectives, as torch's dispatcher is called for them.
//
// Each operator of c10d gets a kernel at BackendSelect, which the dispatcher calls for tensors of
// every device before that of the backend, and which calls on. Nothing else that a job computes
// passes here: an observer of c10d by torch's callbacks would be one of every operator.
//
// When a collective of gloo's is complete, the range that gloo opens for it ends, on another
// thread. Which collective it belongs to travels there with torch's thread-local debug information,
// which gloo's works carry along. NCCL's end when they are enqueued: their completion is not known
// here.
#pragma once

#include <optional>

#include "harness/watch/inject/preload/recorder.h"

namespace gradsync::watch {

// Records collectives from here on. Returns whether there are any to be recorded: torch's
// libraries are loaded.   Errors: torch's own.
bool watch_c10d();

void unwatch_c10d();

// Whether one is being issued on this thread.
bool is_in_collective();

// The one that this thread works for, where it is one of gloo's or MPI's.
std::optional<Recorder::Handle> carried_collective();

}  // namespace gradsync::watch
