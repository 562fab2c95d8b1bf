#include "harness/memory/device_memory.h"

#include "harness/base/errors.h"

namespace gradsync::memory {

DeviceMemory gpu_memory(int major, int minor) {
  constexpr std::int64_t kKiB = 1024;
  constexpr std::int64_t kHopperBytes = 32 * kKiB * kKiB;
  constexpr std::int64_t kOthersBytes = (2 * 4 * kKiB + 8 * 16) * kKiB;  // ":4096:2:16:8"
  constexpr std::int64_t kLtBytes = 1024 * kKiB;
  const bool is_hopper = major == 9 && minor == 0;
  const std::int64_t cublas = is_hopper ? kHopperBytes : kOthersBytes;
  return {.is_gpu = true, .product_bytes = cublas, .biased_product_bytes = kLtBytes};
}

DeviceBlocks::Name DeviceBlocks::make(std::int64_t bytes, Stream stream) {
  Allocator& allocator = of(stream);
  const std::int64_t before = allocator.allocated_bytes();
  const Name name = next_name_++;
  ran_out_ = !allocator.allocate(name, bytes) || ran_out_;
  blocks_[name] = {allocator.allocated_bytes() - before, stream};
  return name;
}

void DeviceBlocks::free(Name name) {
  const auto block = blocks_.extract(name);
  GRADSYNC_CHECK(block.empty(), ==, false);
  if (block.mapped().bytes > 0) of(block.mapped().stream).free(name);
}

std::int64_t DeviceBlocks::take(std::int64_t bytes) {
  const Name name = make(bytes);
  held_[bytes].push_back(name);
  return bytes_of(name);
}

std::int64_t DeviceBlocks::give(std::int64_t bytes) {
  const std::int64_t taken = latest(bytes);
  auto& names = held_.at(bytes);
  free(names.back());
  names.pop_back();
  return taken;
}

std::int64_t DeviceBlocks::latest(std::int64_t bytes) const {
  const auto found = held_.find(bytes);
  const bool is_held = found != held_.end() && !found->second.empty();
  GRADSYNC_CHECK(is_held, ==, true);
  return bytes_of(found->second.back());
}

std::int64_t DeviceBlocks::peak_reserved_bytes() const {
  std::int64_t bytes = 0;
  for (const Allocator& allocator : allocators_) bytes += allocator.peak_reserved_bytes();
  return bytes;
}

void DeviceBlocks::reset_peak() {
  for (Allocator& allocator : allocators_) allocator.reset_peak();
}

void DeviceBlocks::release_unused() {
  for (Allocator& allocator : allocators_) allocator.release_unused_segments();
}

void DeviceBlocks::set_limit(std::optional<std::int64_t> bytes) {
  for (Allocator& allocator : allocators_) {
    allocator.set_limit(bytes);
    ran_out_ = ran_out_ || (bytes && allocator.reserved_bytes() > *bytes);
  }
}

}  // namespace gradsync::memory
