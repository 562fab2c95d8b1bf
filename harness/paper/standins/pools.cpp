#include "harness/paper/standins/pools.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/memory.h"

namespace gradsync::paper {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{32} << 20;

std::mutex pools_mutex;

std::uint64_t in_steps(std::uint64_t bytes) {
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

void* Pool::take(std::size_t bytes) {
  const std::lock_guard lock(pools_mutex);
  const std::uint64_t wanted = std::max(reserved, in_steps(used + bytes));
  if (!Machine::here().charge(device, wanted - reserved)) return nullptr;
  reserved = wanted;
  void* block = reserve_addresses(bytes);
  if (block == nullptr) return nullptr;
  blocks[block] = bytes;
  used += bytes;
  used_peak = std::max(used_peak, used);
  reserved_peak = std::max(reserved_peak, reserved);
  return block;
}

bool Pool::give_back(void* block) {
  {
    const std::lock_guard lock(pools_mutex);
    const auto found = blocks.find(block);
    if (found == blocks.end()) return false;
    used -= found->second;
    blocks.erase(found);
    free_addresses(block);
  }
  if (reserved > release_threshold) trim_to(release_threshold);
  return true;
}

void Pool::trim_to(std::size_t keep) {
  const std::lock_guard lock(pools_mutex);
  const std::uint64_t kept = std::min(reserved, std::max(in_steps(used), in_steps(keep)));
  Machine::here().discharge(device, reserved - kept);
  reserved = kept;
}

Pool& pool_of(int device) {
  static std::deque<Pool>* pools = new std::deque<Pool>;
  const std::lock_guard lock(pools_mutex);
  while (static_cast<int>(pools->size()) <= device) {
    pools->emplace_back();
    pools->back().device = static_cast<int>(pools->size()) - 1;
  }
  return (*pools)[static_cast<std::size_t>(device)];
}

}  // namespace gradsync::paper
