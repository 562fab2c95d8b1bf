#include "harness/watch/inject/preload/tensor_account.h"

#include <algorithm>

namespace gradsync::watch {

void TensorAccount::add(const void* block, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[block] = bytes;
  held_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
}

bool TensorAccount::would_raise_peak(std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return held_bytes_ + bytes > peak_bytes_;
}

void TensorAccount::remove(const void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  held_bytes_ -= found->second;
  blocks_.erase(found);
}

std::int64_t TensorAccount::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

std::int64_t TensorAccount::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void TensorAccount::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_bytes_ = held_bytes_;
}

}  // namespace gradsync::watch
