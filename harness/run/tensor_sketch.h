// The sketch of a tensor (account/sketch.h), made where the tensor is and at the speed of memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "harness/account/sketch.h"

namespace gradsync::run {

// Returns the sketch of `values`, of any shape and floating type, whose first element is element
// `offset` of the whole.
// Shapes: [64] float64 on the device of `values`. Cost: reads them once; rows of 4096 elements are
// folded in float32, what is left of them in float64.
at::Tensor tensor_sketch(const at::Tensor& values, std::int64_t offset = 0);

// Returns it as numbers. Blocks: until the device has them.
account::Sketch sketch_numbers(const at::Tensor& sketch);

}  // namespace gradsync::run
