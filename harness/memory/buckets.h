// Buckets as DDP's Reducer fills them once it has seen in which order gradients become ready.
// Source: c10d::compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp).
//   No torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/plan/plan.h"

namespace gradsync::memory {

// As DDP has them by default.
inline constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

struct BucketLimits {
  std::int64_t first_bytes = kFirstBucketBytes;
  std::int64_t bytes = kBucketBytes;
};

// As `cell` has them. A scaled model has them scaled with it, so that it has the same buckets.
inline BucketLimits buckets_of(const plan::Cell& cell) {
  BucketLimits limits;
  if (cell.bucket_cap_bytes > 0) limits = {cell.bucket_cap_bytes, cell.bucket_cap_bytes};
  limits.first_bytes = std::max<std::int64_t>(1, limits.first_bytes / cell.scale);
  limits.bytes = std::max<std::int64_t>(1, limits.bytes / cell.scale);
  return limits;
}

// A bucket is closed by the gradient with which it reaches its limit; no gradient is divided.
class BucketFilling {
 public:
  explicit BucketFilling(const BucketLimits& limits) : limits_(limits) {}
  // Returns whether the bucket is closed by this gradient.
  bool add(std::int64_t bytes) {
    open_bytes_ += bytes;
    if (open_bytes_ < (is_first_ ? limits_.first_bytes : limits_.bytes)) return false;
    is_first_ = false;
    open_bytes_ = 0;
    return true;
  }

 private:
  BucketLimits limits_;
  bool is_first_ = true;
  std::int64_t open_bytes_ = 0;
};

// Returns the size of each bucket of gradients that take `gradient_bytes`, in the order in which
// they become ready.
inline std::vector<std::int64_t> bucket_bytes(const std::vector<std::int64_t>& gradient_bytes,
                                              const BucketLimits& limits) {
  std::vector<std::int64_t> buckets;
  BucketFilling filling(limits);
  bool is_closed = true;
  for (const std::int64_t bytes : gradient_bytes) {
    if (is_closed) buckets.push_back(0);
    buckets.back() += bytes;
    is_closed = filling.add(bytes);
  }
  return buckets;
}

}  // namespace gradsync::memory
