// Which collectives of a micro-batch are of gradients, and among whom.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

using EventPointers = std::vector<const Event*>;
using Models = std::set<std::int64_t>;

// Shards: among those that share a batch's gradients out, under DDP all ranks. Replicas: of hybrid
// sharding, among those that have the same shard. One may be due where the other is not.
enum class Among { Shards, Replicas };

// Returns the collectives in backward that are or may be of gradients: under DDP all, under FSDP
// any but gathers and broadcasts; none of a group that is known for something else, such as tensor
// parallelism, and under DDP none of a group of one of several ranks.
// Without a wrapper those that are by their bytes.
EventPointers reductions_of(const MicroBatch& micro_batch);
EventPointers reductions_of(const MicroBatch& micro_batch, Among among);

// Whether a collective's group allows it: it is known for nothing else, and has other ranks.
bool may_be_of_gradients(const Event& collective);

// Returns those broadcasts, of buffers, that its forwards began.
EventPointers broadcasts_of(const MicroBatch& micro_batch);

bool is_wrapped(const MicroBatch& micro_batch);
// Whether its reductions are known as such: by its wrapper, or by their bytes (unwrapped.h).
bool has_known_reductions(const MicroBatch& micro_batch);
// Without a wrapper the bytes of its gradients tell models apart, as numbers below 0.
Models models_of(const MicroBatch& micro_batch);
// Returns the models that it synchronizes, if it does: all but those that are quiet.
Models synced_models_of(const MicroBatch& micro_batch);
bool share_a_model(const Models& a, const Models& b);

OpSums sums_of(const EventPointers& collectives);

// Models that share micro-batches, directly or by a third, with the micro-batches that they ran in.
struct ModelSteps {
  Models models;
  Steps steps;  // those of the job in which they ran, without the micro-batches of others
};

// Returns them in the order in which they first ran; one where all share micro-batches. Empty where
// it is not known which model ran.
std::vector<ModelSteps> by_model(const Steps& steps);

}  // namespace gradsync::watch
