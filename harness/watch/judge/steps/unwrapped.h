// Which collectives reduced the gradients of which backward, by bytes alone, in a job in which no
// model of a known wrapper ran.
//
//   B R  B R  B R  B R  S     each backward's gradients are reduced, in it or behind it
//   B    B    B    B R  S     once per step
//
// A collective counts for the last backward that began before it, up to the end of the step. What
// one process group, or all of them, reduced behind a backward were its gradients where the bytes
// are those of the gradients that it reached, or of those that the step's optimizers read; or half
// or twice as many, since gradients may travel in another type; and a little more, for padding and
// a logged loss. A group that reduces much before the first backward of a step as well, as a
// tensor-parallel forward does, reduces activations.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {

// Puts what reduced gradients into the micro-batches of `steps`, and sets `is_by_bytes` of all:
// where some did, or parameters were made equal before the first step. Else nothing is changed.
void find_reductions(Steps& steps);

// Returns the bytes of the gradients that a micro-batch's backward reached; nothing where they are
// not known, or it has several.
std::optional<std::int64_t> reached_bytes(const MicroBatch& micro_batch);

// Whether so many bytes are a reduction of so many bytes of gradients, as above.
bool may_be_gradients(std::int64_t reduced_bytes, std::int64_t gradient_bytes);

// Whether the backward found all its gradients there, and added to them; or none of them.
bool adds_to_gradients(const MicroBatch& micro_batch);
bool finds_no_gradients(const MicroBatch& micro_batch);

}  // namespace gradsync::watch
