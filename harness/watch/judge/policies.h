// When a sharded model can reduce its gradients, and what each way costs on the model that was
// seen.
//
//   each micro-batch      each rank holds its share of the gradients from then on
//   replicas at the end   the same, as reduce-scatter leaves it, in the type that is reduced in
//   all at the end        each rank holds whole gradients until the last micro-batch
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

enum class When { EachMicroBatch, ReplicasAtTheEnd, AllAtTheEnd };

struct Policy {
  When when = When::EachMicroBatch;
  // Bytes of gradients that every rank holds between micro-batches, as requested from an allocator,
  // before it rounds them up.
  Known<std::int64_t> held_bytes;
  std::int64_t parameter_bytes = 0;  // of these: FSDP1 can leave parameters gathered in between
  // The time that a step saves against what the job does now. Not known for ways that communicate
  // more often than the job.
  Known<double> saved_s;
};

// What a step was seen to wait for, in seconds: medians over steps.
struct Waits {
  Known<double> replicas_excess_s;
  Known<double> excess_s;
};

// Returns what each would cost; none of a step with nothing to defer.
std::vector<Policy> policies_of(const StepCounts& step, const RankEvents& rank, const Waits& waits);

// "reducing everything once per step needs 4.0 KiB (4096 bytes) more memory for gradients, and
// makes a step 0.301 s shorter": of each that defers, where it is known what it holds.
std::vector<std::string> policy_texts(const std::vector<Policy>& policies);

}  // namespace gradsync::watch
