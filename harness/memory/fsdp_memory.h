// What a step of FSDP holds, declared beforehand: a pure function from sizes, options and policy.
//
// It is a recurrence over the units, in the order in which the wrapper visits them, and not one
// expression: a gathered unit, a gradient in flight, a kept gradient and activations exist together
// at some places of the step and not at others. The first unit to run backward still has all
// activations beside it. Activations come from the model's footprint; every other term is one
// allocation of FlatUnit (flat_unit.cpp):
//
//   resident      parameters / ranks x stored, and what the optimizer keeps of them
//                 (where it is offloaded, on the host: each gather copies a shard to the device,
//                 and each gradient is copied back)
//   gathered      one unit, two with prefetch; all of them without reshard_after_forward
//   gradient      whole where no_sync kept it, else the unit's own and the one being reduced
//   reduced       gradients / ranks
//   communication casts for the wire, and gloo's copies: of what it gathers while it begins, and
//                 of what it reduces until that ends
#pragma once

#include <cstdint>
#include <vector>

#include "harness/memory/memory_account.h"
#include "models/footprint.h"

namespace gradsync::memory {

struct FsdpMemory {
  int ranks = 1;  // that share one copy of the parameters
  // Bytes per element: as stored, as gathered, of a gradient as it accumulates, on the wire.
  int stored_bytes = 4;
  int param_bytes = 4;
  int gradient_bytes = 4;
  int reduce_bytes = 4;
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  bool prefetch = true;
  bool optimizer_in_backward = false;  // a unit's gradient goes with its step, once it is reduced
  Offload offload = Offload::None;
  bool backend_copies_gathers = true;     // gloo does; NCCL and the fake backend do not
  bool backend_copies_reductions = true;  // likewise
  DeviceMemory device = {};
};

// Returns what one rank holds in a step whose micro-batch i reduces gradients where syncs[i], with
// an optimizer of AdamW's two moments where the footprint has one. `other_bytes`: the bytes of each
// other resident tensor, of data and buffers. The footprint is in the type of gathered parameters.
StepMemory fsdp_step_memory(const FsdpMemory& memory, const models::Footprint& footprint,
                            const std::vector<bool>& syncs,
                            const std::vector<std::int64_t>& other_bytes);

}  // namespace gradsync::memory
