// Which units of a model are checkpointed: they keep no activations, and run again in backward.
// No torch.
#pragma once

#include <cstddef>

namespace gradsync::models {

// Counted as torchtitan's selective checkpointing of layers counts: of every second unit, those
// with index 1, 3, 5, ...
struct CheckpointedUnits {
  int every = 0;  // each n-th unit; 1: all, 0: none

  bool has(std::size_t unit) const {
    return every > 0 && (unit + 1) % static_cast<std::size_t>(every) == 0;
  }
};

}  // namespace gradsync::models
