// The driver's own pool of a device's memory (cudaMallocAsync), which torch uses with
// backend:cudaMallocAsync. What it reserves grows in steps of 32 MiB and shrinks when it is
// trimmed; how the driver lays blocks out in it is not public, and not modelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace gradsync::paper {

struct Pool {
  int device = 0;
  std::uint64_t used = 0, used_peak = 0;
  std::uint64_t reserved = 0, reserved_peak = 0;
  std::uint64_t release_threshold = 0;
  std::map<void*, std::size_t> blocks;

  void* take(std::size_t bytes);  // null where the device has not that much left
  bool give_back(void* block);
  void trim_to(std::size_t keep);
};

Pool& pool_of(int device);

}  // namespace gradsync::paper
