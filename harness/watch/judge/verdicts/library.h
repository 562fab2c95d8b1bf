// Libraries that run the loop of a job, as trainers do: where one does, the line of the job is the
// call that starts it, and there is nothing to change but an option.
#pragma once

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// What a job may ask of such a library.
enum class Knob { Accumulation, UnusedParameters, Buckets };

// Returns the forward of a micro-batch that a library runs: it calls forward, and the job has
// called it at the same line for backward, or backward runs within forward. Without a wrapped model
// the backward that it runs. null: the job does.
const Event* call_of_library(const MicroBatch& micro_batch);

// Says in `change`, of what the library does that called `called`, that it does it, and which of
// its options to set. Nothing where the job itself called.
void say_library(Change& change, const Event& called, Knob knob);

}  // namespace gradsync::watch
