// Buckets as DDP's Reducer makes them once it has seen in which order gradients become ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/memory/buckets.h"
#include "harness/predict/step_model.h"

namespace gradsync::predict {

struct Bucket {
  std::int64_t elements = 0;
  std::size_t layer = 0;  // whose backward completes it
};

// Returns the buckets in the order they are reduced. Gradients come from the last layer to the
// first, in a layer the last registered first; they count as float32 whatever crosses the wire.
std::vector<Bucket> reducer_buckets(const StepModel& model, const memory::BucketLimits& limits);

// Returns a bucket for each tensor, in the same order, all of them completed by the first layer:
// for gradients that are reduced by hand, after backward.
std::vector<Bucket> tensors_after_backward(const StepModel& model);

}  // namespace gradsync::predict
