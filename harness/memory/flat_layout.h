// Where parameters lie in a flat tensor: one rule for the wrapper and for the formula of its
// memory.
#pragma once

#include <cstdint>
#include <vector>

namespace gradsync::memory {

// Every parameter begins where vector instructions may load it. torch's FullyShardedDataParallel
// (FSDP1) aligns its own so (_get_aligned_numel in torch/distributed/fsdp/_flat_param.py, 2.11).
inline constexpr std::int64_t kParameterAlignment = 16;  // bytes

struct Stretch {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// All in elements.
struct FlatLayout {
  std::vector<std::int64_t> offsets;  // of each parameter
  std::vector<Stretch> padding;       // what belongs to no parameter: gaps, and the end
  std::int64_t padded = 0;            // in all: a multiple of the ranks that share it
};

// Returns the layout of parameters with `sizes` elements of `element_bytes` each, in their order,
// that `ranks` share in equal parts.
FlatLayout flat_layout(const std::vector<std::int64_t>& sizes, std::int64_t element_bytes,
                       std::int64_t ranks);

}  // namespace gradsync::memory
