// Tells a rank's recorder where DDP's Reducer copies what was reduced back into gradients.
//
// Once a backward's computation is over, the Reducer waits for its buckets, one after the other,
// and copies each into its gradients before it waits for the next: all in one call, which would
// pass for waiting as a whole. What tells the two apart is the range that the Reducer opens, for
// profilers, round the copy of each gradient. Where gradients are views of buckets
// (gradient_as_bucket_view) there is nothing to copy.
//
// Source: finalize_bucket_dense() in torch/csrc/distributed/c10d/reducer.cpp.
#pragma once

#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

// From now on the recorder, which is in Wait, sees Copy while this thread copies a bucket, and Wait
// again behind it. Until unwatch_copies() on the same thread.
// Cost: a call for each operator of this thread meanwhile, and six clock readings for each
// gradient.
void watch_copies(measure::StepRecorder& recorder);

// Does nothing on a thread that watches none.
void unwatch_copies();

}  // namespace gradsync::sync
