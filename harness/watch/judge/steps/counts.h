// Counts what each optimizer step synchronized, and how much of it was more than enough.
//
// A micro-batch synchronizes where gradients are exchanged in its backward: under DDP any
// collective begun there, under FSDP any but an all-gather or a broadcast. Under DDP other
// collectives can run in every backward as well (SyncBatchNorm's, a tensor-parallel layer's): what
// a micro-batch exchanges that does not synchronize is not counted as gradients in the others. A
// micro-batch does not synchronize where its wrapper was seen to be switched off (steps.h) or,
// where that was not seen, where it exchanged less than half of what another one of its step did.
// One that moves half of its model's gradients synchronizes in any case: a wrapper's flag can
// change between forward and backward.
//
// One synchronization per step and model is enough: in its last micro-batch. Each earlier one is
// excess, with the broadcast of buffers that it causes before the next forward.
// Among replicas of shards the same holds for itself: shards may be added up in every micro-batch,
// and replicas of them in the last alone.
//
// The time of an excess synchronization is how long the job waited for it (waits.h). On the host
// that is from when its last collective was issued to when the last one was complete: DDP and FSDP
// issue the last when backward has nothing left to compute, and wait. FSDP on the host waits for
// each collective before it goes on: where they come one by one, all of their time counts. This
// assumes that compute and wire do not slow each other down; on a slower machine they do, and the
// fix saves more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/watch/judge/steps/group_counts.h"
#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/step_parts.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/gpu_work.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

// Why there are no times.
inline constexpr const char* kNoEnds = "it is not known when collectives ended";

// One step in numbers. All of one model: the one that synchronized most often.
struct StepCounts {
  const Step* step = nullptr;
  int micro_batches = 0;                  // with a wrapped forward, or all (unwrapped.h)
  int synchronized = 0;                   // of these
  int behind_the_last = 0;                // of these: they come after the last that synchronized
  int reductions = 0;                     // collectives of gradients in the whole step
  int alone_collectives = 0;              // begun where autograd ran without a wrapped forward
  int micro_batches_with_broadcasts = 0;  // begun in their forwards
  // A backward behind one that synchronized in the same micro-batch, of one model under DDP: what
  // it adds is not synchronized. null: there is none.
  const Event* left_behind = nullptr;
  // An optimizer with parameters of the model that steps within its backward, before that begins to
  // reduce. null: there is none.
  const Event* steps_too_soon = nullptr;
  bool is_by_bytes = false;      // no wrapper ran: reductions are told by their bytes
  bool has_shards = false;       // of a model whose gradients are sharded
  bool models_are_known = true;  // false: two models could pass for two micro-batches of one
  OpSums collectives;
  OpSums excess;
  std::vector<const MicroBatch*> excess_micro_batches;  // in order
  EventPointers excess_collectives;                     // in them, and buffers behind them
  bool has_excess_among_shards = false;
  ReplicaCounts replicas;
  ByGroup by_group;  // empty: not all collectives in excess are known one by one
  std::optional<std::int64_t> excess_ns = 0;  // absent: it is not known when collectives ended
  std::optional<std::int64_t> replicas_excess_ns = 0;  // of these, without which it were less
  // The time of one synchronization: the mean of those in excess or, without such, the only one's.
  std::optional<std::int64_t> synchronization_ns;
  std::optional<StepParts> parts;  // without times; absent: its micro-batches are not alike
  // What the job waited for all its synchronizations, broadcasts of buffers included. Absent: it is
  // not known when collectives ended, or what was communicated was no synchronization of a model.
  std::optional<std::int64_t> exposed_ns;
  // When its rank came to the last collective of its last synchronization; 0: there is none.
  std::int64_t last_begun_ns = 0;

  struct OnGpu {
    GpuSpan span;
    std::int64_t optimizer_begin_ns = 0;
  };
  std::optional<OnGpu> on_gpu;  // absent: it is not known when it ran there

  // On the GPU where that is known.
  double duration_s() const;
  double optimizer_s() const;  // from when the first one began, or its closure was done

  std::int64_t optimizer_begin_ns() const;  // on the host
};

// Returns the counts of every step that is complete, skipped ones included. `steps` must outlive
// what is returned.
std::vector<StepCounts> count_steps(const Steps& steps);

}  // namespace gradsync::watch
