// What a step of DDP holds, declared beforehand: a pure function from sizes, options and policy.
//
// Parameters, moments and the Reducer's buckets are always there, and gradients from the backward
// that makes them to the end of the step. So the peak is where most activations meet most
// gradients: in the first micro-batch near its end, in later ones where backward begins.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/memory/buckets.h"
#include "harness/memory/memory_account.h"
#include "models/footprint.h"

namespace gradsync::memory {

struct DdpMemory {
  bool gradient_as_bucket_view = false;
  bool master_weights = false;  // the optimizer steps float32 copies of parameters of fewer bits
  Offload offload = Offload::None;  // or the optimizer's state; not with master weights
  BucketLimits buckets = {};
  DeviceMemory device = {};
};

// Returns what one rank holds in a steady step (buckets are rebuilt, moments made) whose
// micro-batch i reduces gradients where syncs[i]; without find_unused_parameters and static_graph.
// Gradients have the type of the parameters, which is that of the footprint. `other_bytes`: the
// bytes of each other resident tensor, of data and buffers.
StepMemory ddp_step_memory(const DdpMemory& memory, const models::Footprint& footprint,
                           const std::vector<bool>& syncs,
                           const std::vector<std::int64_t>& other_bytes);

}  // namespace gradsync::memory
