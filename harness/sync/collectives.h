// Declares what a step should communicate, before it runs: pure functions from sizes and options.
// Every trial's ledger is checked against them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradsync::sync {

// The collectives of one micro-batch: for each operation the sizes in bytes, in the order issued.
using Collectives = std::map<std::string, std::vector<std::int64_t>>;

// The names under which SyncBatchNorm's collectives are recorded: an all_gather in forward and an
// all_reduce in backward of each layer. Their counts must not be added to those of gradients.
inline constexpr const char* kBatchNormGather = "batch_norm_all_gather";
inline constexpr const char* kBatchNormReduce = "batch_norm_all_reduce";

// Returns the collectives of SyncBatchNorm's layers in one micro-batch, as recorded: `channels` of
// each layer, in the order of forward. A rank gives the others mean, variance and a count, and sums
// two gradients with them. On one rank: none.
Collectives batch_norm_collectives(const std::vector<std::int64_t>& channels, int ranks);

// What one micro-batch moves under DDP.
struct DdpTraffic {
  std::vector<std::int64_t> bucket_bytes;  // of the Reducer, in the order they are reduced
  std::vector<std::int64_t> buffer_bytes;  // one broadcast each: one per dtype
  std::int64_t unused_map_bytes = 0;       // find_unused_parameters: one more all_reduce; 0: none
  Collectives batch_norm;                  // in every micro-batch, whether it syncs or not
};

// Returns the collectives of a step whose micro-batch i reduces gradients where syncs[i]. Buffers
// are broadcast before micro-batch i when the micro-batch before it was a synchronized one (the
// last of the step before, for the first).
std::vector<Collectives> declared_collectives(const DdpTraffic& traffic,
                                              const std::vector<bool>& syncs);

// What one unit moves under FSDP; nothing where it has no parameters.
struct UnitTraffic {
  std::int64_t gather_bytes = 0;     // all_gather: its whole parameters
  std::int64_t reduce_bytes = 0;     // reduce_scatter: its whole gradient
  std::int64_t replicate_bytes = 0;  // all_reduce of a rank's shard across nodes; 0: not hybrid
  bool runs_backward = true;         // false: nothing before it or in it is trained
};

struct FsdpTraffic {
  UnitTraffic root;                // what is in no unit: gathered first, reduced last
  std::vector<UnitTraffic> units;  // in the order of forward
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  bool prefetch = true;  // backward gathers one unit ahead, also one that has no backward
};

// Returns the collectives of a step that begins with every unit sharded, and whose micro-batch i
// reduces gradients where syncs[i]. A unit is gathered where it is needed and not present.
std::vector<Collectives> declared_collectives(const FsdpTraffic& traffic,
                                              const std::vector<bool>& syncs);

// What one micro-batch moves between this stage of a pipeline and its neighbours: activations on
// the way forward, their gradients, of the same size, on the way back.
struct StageTraffic {
  std::int64_t from_previous_bytes = 0;  // 0: the first stage
  std::int64_t to_next_bytes = 0;        // 0: the last stage
};

// Returns the collectives of a step of `micro_batches`, each forward and then backward.
std::vector<Collectives> declared_collectives(const StageTraffic& traffic,
                                              std::size_t micro_batches);

}  // namespace gradsync::sync
