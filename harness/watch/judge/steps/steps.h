// One rank's events cut into optimizer steps, and these into micro-batches.
//
//   F B  F B  F B  F B  S     a step of 4 micro-batches
//   E E  F B            S     evaluation, and a step of 1 micro-batch
//   F B  F B  S S             two optimizers that step together: one step
//
// The rules, and what they assume:
//   micro-batch    one or more forwards of wrapped models, then one or more runs of autograd that
//                  accumulate gradients. The next forward with a gradient begins another. nesting.h
//                  has those that run within each other, pipelined.h a pipeline's stages, which run
//                  forwards ahead.
//   unsynchronized a micro-batch in which every model's wrapper was seen to be switched off: DDP
//                  reads its flag in forward, FSDP in backward.
//   evaluation     forwards known to have no gradient, and those that no backward follows. Others
//                  count among the forwards of the next micro-batch, which changes no count of it.
//   step           ends with an optimizer's step; steps of optimizers with no backward between them
//                  are one. One that a gradient scaler skips ends a step as well. Where none of
//                  torch's steps, parameters that the job changes by itself end it.
//   a collective   belongs to the forward or the backward that was running when it was issued, on
//                  whichever thread; else to the step alone. What was issued before the first
//                  forward or backward belongs to the set-up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/watch/read/event.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

// Pointers are to the events that it was made of.
struct MicroBatch {
  std::vector<const Event*> forwards;        // with a gradient; empty: autograd ran by itself
  std::vector<const Event*> inner_forwards;  // of wrapped models within these models, also with one
  std::vector<const Event*> backwards;       // one at least
  std::vector<const Event*> in_forward;      // collectives: buffers; under FSDP parameters
  std::vector<const Event*> in_backward;  // collectives: gradients; under FSDP parameters as well
  // What reduced its gradients, in backward or behind it, in a job without a wrapper whose
  // reductions bytes tell (unwrapped.h).
  std::vector<const Event*> of_gradients;
  bool is_by_bytes = false;
  // Where the job entered the no_sync that was open when the first forward, or the first backward,
  // began. null: none was open, or it was not seen.
  const Event* no_sync_at_forward = nullptr;
  const Event* no_sync_at_backward = nullptr;
  bool is_unsynced = false;   // as above
  bool is_pipelined = false;  // others begin or end between its forward and its backward
  bool is_replayed = false;   // within another backward, as cached losses do
};

struct Step {
  std::int64_t start_ns = 0;  // the end of the step before; of the first: its first forward
  std::int64_t end_ns = 0;    // of the last optimizer
  std::vector<MicroBatch> micro_batches;
  std::vector<const Event*> optimizers;     // or a GradientUse that changed parameters
  std::vector<const Event*> in_evaluation;  // collectives
  std::vector<const Event*> outside;        // collectives in neither forward nor backward
  // Clearings and uses of gradients between two of its micro-batches, the last one between each.
  std::vector<const Event*> clearings;
  int evaluation_forwards = 0;
  bool is_complete = false;  // false: the job ended before its optimizer stepped
  bool is_skipped = false;   // by a gradient scaler
  // The last backward that the optimizer ran by itself; null: none. Trainers that pass a closure
  // have one there, LBFGS has several.
  const Event* in_closure = nullptr;
  bool repeats_closure = false;  // it ran more than once
  bool is_interleaved = false;   // of stages of a pipeline: micro-batches cannot be told apart
  // A forward that is replayed within the backward of other forwards; null: there is none.
  const Event* replayed_beside = nullptr;
};

struct Steps {
  std::vector<Step> steps;            // in order; the last one may be incomplete
  std::vector<const Event*> set_up;   // collectives before the first forward or backward
  std::vector<const Event*> closing;  // collectives behind the last step
  // The bytes of each wrapped model, by its object; those of an absent model are not known.
  std::map<std::int64_t, std::int64_t> gradient_bytes;
};

// Returns the steps of a process. `events` must be sorted by start_ns, and outlive what is
// returned.
Steps cut_into_steps(const std::vector<Event>& events);

// Returns all collectives of the step.
OpSums collectives_of(const Step& step);

// Returns whether a forward is of a model under FSDP, which reads its flag in backward: FSDP1,
// fully_shard, or a replicate() that is made of fully_shard.
bool is_of_fsdp(const Event& forward);
// Returns the same for any forward of a micro-batch.
bool is_of_fsdp(const MicroBatch& micro_batch);

// Returns whether a rank has only a share of the gradients of a model that ran forward.
bool is_sharded(const MicroBatch& micro_batch);

// Returns whether a Sync sets the flag set_requires_gradient_sync.
bool is_of_gradients(const Event& flag);

// Returns whether a word stands in the event's `detail`: "no_grad" in "eval no_grad".
bool has_word(const Event& event, std::string_view word);

// Returns the value of "name=value" there; nothing where there is no such word.
std::optional<std::string_view> word_value(const Event& event, std::string_view name);

}  // namespace gradsync::watch
