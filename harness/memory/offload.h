// What of a rank's tensors is offloaded: lives on the host, out of a GPU's memory.   No torch.
#pragma once

#include <cstdint>

namespace gradsync::memory {

enum class Offload : std::uint8_t {
  None,
  // The optimizer's moments, and a copy of what it steps: gradients are copied to it, it steps on
  // the host, and parameters are copied back (sync/host_optimizer.h).
  OptimizerState,
  // FSDP's shards, with their gradients and moments: shards are copied to the device for each
  // gather, each reduced gradient is copied back, and the optimizer steps where they are. As
  // fully_shard's CPUOffloadPolicy.
  Parameters
};

}  // namespace gradsync::memory
