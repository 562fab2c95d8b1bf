#include "harness/memory/device_memory.h"

#include "harness/base/errors.h"

namespace gradsync::memory {

DeviceMemory gpu_memory(int major, int minor) {
  constexpr std::int64_t kKiB = 1024;
  constexpr std::int64_t kHopperBytes = 32 * 1024 * kKiB;
  constexpr std::int64_t kOthersBytes = (2 * 4096 + 8 * 16) * kKiB;  // ":4096:2:16:8"
  constexpr std::int64_t kLtBytes = 1024 * kKiB;
  const bool is_hopper = major == 9 && minor == 0;
  const std::int64_t cublas = is_hopper ? kHopperBytes : kOthersBytes;
  return {.is_gpu = true, .product_bytes = cublas, .biased_product_bytes = kLtBytes};
}

std::int64_t DeviceBlocks::take(std::int64_t bytes) {
  const std::int64_t before = allocator_.allocated_bytes();
  Block block{next_name_++, 0};
  if (!allocator_.allocate(*block.name, bytes)) {
    ran_out_ = true;
    block.name.reset();
  }
  block.bytes = allocator_.allocated_bytes() - before;
  held_[bytes].push_back(block);
  return block.bytes;
}

std::int64_t DeviceBlocks::give(std::int64_t bytes) {
  const std::int64_t taken = latest(bytes);
  auto& blocks = held_.at(bytes);
  if (blocks.back().name) allocator_.free(*blocks.back().name);
  blocks.pop_back();
  return taken;
}

std::int64_t DeviceBlocks::latest(std::int64_t bytes) const {
  const auto found = held_.find(bytes);
  const bool is_held = found != held_.end() && !found->second.empty();
  GRADSYNC_CHECK(is_held, ==, true);
  return found->second.back().bytes;
}

}  // namespace gradsync::memory
