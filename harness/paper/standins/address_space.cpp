#include "harness/paper/standins/address_space.h"

#include <sys/mman.h>

#include <iterator>

namespace gradsync::paper {
namespace {

constexpr std::size_t kReserved = std::size_t{16} << 40;
constexpr std::size_t kAlignment = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

char* AddressSpace::base() {
  if (base_ != nullptr) return base_;
  void* start = ::mmap(nullptr, kReserved + kAlignment, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  base_ = reinterpret_cast<char*>(rounded(reinterpret_cast<std::size_t>(start)));
  free_[base_] = kReserved;
  return base_;
}

void* AddressSpace::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes == 0 ? 1 : bytes);
  const std::lock_guard lock(mutex_);
  if (base() == nullptr) return nullptr;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < size) continue;
    char* start = range->first;
    const std::size_t rest = range->second - size;
    free_.erase(range);
    if (rest > 0) free_[start + size] = rest;
    taken_[start] = size;
    return start;
  }
  return nullptr;
}

void AddressSpace::give_back(void* start) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<char*>(start));
  if (taken == taken_.end()) return;
  auto [at, size] = *taken;
  taken_.erase(taken);
  ::madvise(at, size, MADV_DONTNEED);
  const auto next = free_.lower_bound(at);
  if (next != free_.end() && at + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(at);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == at) {
      before->second += size;
      return;
    }
  }
  free_[at] = size;
}

void AddressSpace::forget(void* start, std::size_t bytes) {
  if (contains(start)) ::madvise(start, bytes, MADV_DONTNEED);
}

bool AddressSpace::contains(const void* address) const {
  const std::lock_guard lock(mutex_);
  const char* at = static_cast<const char*>(address);
  return base_ != nullptr && at >= base_ && at < base_ + kReserved;
}

void* AddressSpace::block_of(const void* address, std::size_t& bytes) {
  const std::lock_guard lock(mutex_);
  char* at = static_cast<char*>(const_cast<void*>(address));
  auto block = taken_.upper_bound(at);
  if (block == taken_.begin()) return nullptr;
  --block;
  if (at >= block->first + block->second) return nullptr;
  bytes = block->second;
  return block->first;
}

}  // namespace gradsync::paper
