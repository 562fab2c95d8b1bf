// What one rank of a training job in Python holds in a step: a recorded model under torch's own
// DistributedDataParallel or fully_shard, or alone. A pure function, to be compared with the count
// of the job's allocator.
//
// The suite's own wrappers have formulas of their own (ddp_memory.h, fsdp/memory_formula.h). The
// Reducer is the same class in both, but torch's fully_shard is not the suite's FSDP: it gathers a
// unit into one buffer and copies every parameter out of it, keeps the buffer until the next unit
// has gathered, and leaves gradients where autograd made them until they are packed to be reduced.
//
// The step is not the first: moments exist, and the Reducer's buckets are rebuilt. The job is
// assumed to keep only the loss of a micro-batch, to hold one batch at a time, to step with the
// fused AdamW and to free gradients after it (zero_grad).   No torch.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/buckets.h"
#include "harness/memory/memory_account.h"
#include "models/memory_profile.h"

namespace gradsync::memory {

struct DdpJob {
  bool has_reducer = true;  // false: the model alone, on one rank
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  int element_bytes = 4;  // of parameters, gradients and moments
  BucketLimits buckets = {};
};

StepMemory ddp_job_memory(const DdpJob& job, const models::MemoryProfile& profile,
                          const std::vector<bool>& syncs);

struct FullyShardJob {
  int ranks = 1;  // that share one copy of the parameters
  // Bytes per element: as stored, as gathered, on the wire. MixedPrecisionPolicy's.
  int stored_bytes = 4;
  int param_bytes = 4;
  int reduce_bytes = 4;
  // As fully_shard's argument: true is its default, which leaves the root's own parameters
  // gathered.
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  bool backend_copies = true;      // gloo makes copies of what it sends; NCCL does not
  std::vector<std::size_t> units;  // modules that fully_shard was called with, before the model
};

// Returns the memory of rank 0, which holds most if a parameter's rows cannot be divided evenly.
StepMemory fully_shard_job_memory(const FullyShardJob& job, const models::MemoryProfile& profile,
                                  const std::vector<bool>& syncs);

}  // namespace gradsync::memory
