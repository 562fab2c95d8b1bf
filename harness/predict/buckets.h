// Buckets as DDP's Reducer makes them once it has seen in which order gradients become ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/predict/step_model.h"

namespace gradsync::predict {

struct Bucket {
  std::int64_t elements = 0;
  std::size_t layer = 0;  // whose backward completes it
};

// As DDP has them by default.
inline constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

struct BucketLimits {
  std::int64_t first_bytes = kFirstBucketBytes;
  std::int64_t bytes = kBucketBytes;
};

// Returns the buckets in the order they are reduced. Gradients come from the last layer to the
// first, in a layer the last registered first; a bucket is closed by the tensor with which it
// reaches its limit, in float32 whatever crosses the wire, and no tensor is divided.
// Source: c10d::compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp).
std::vector<Bucket> reducer_buckets(const StepModel& model, const BucketLimits& limits);

// Returns a bucket for each tensor, in the same order, all of them completed by the first layer:
// what is reduced by hand, after backward.
std::vector<Bucket> tensors_after_backward(const StepModel& model);

}  // namespace gradsync::predict
