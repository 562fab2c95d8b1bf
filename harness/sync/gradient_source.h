// Where what an optimizer reads comes from, for whoever keeps an account of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gradsync::sync {

// A gradient that the optimizer reads, and whose gradients go into it. All in elements.
struct GradientSource {
  struct Part {
    at::Tensor parameter;     // whose gradient autograd accumulates
    std::int64_t offset = 0;  // of it in the whole
  };
  at::Tensor read;            // the optimizer reads its grad(): a parameter, or a shard
  std::int64_t elements = 0;  // of the whole
  std::int64_t offset = 0;    // of what is read, in the whole
  std::vector<Part> parts;
};

}  // namespace gradsync::sync
