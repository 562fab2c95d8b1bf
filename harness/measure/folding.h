// Memory folding: large tensors that take no memory.
//
// Every block is a range of addresses onto which one small file in memory is mapped again and
// again. So 90 GB of tensors exist and real kernels run on them, in 64 MiB. What is written to one
// tensor appears in all: values are garbage, and only sizes, counts and times of such a run mean
// something. Pages are mapped at once (MAP_POPULATE), so that no kernel pays for page faults.
//
// RSS counts each mapping of a page and shows the tensors' size; PSS divides by the number of
// mappings and shows what is really used. Page tables are in neither: 2 MiB per GiB mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "harness/launch/unique_fd.h"

namespace gradsync::measure {

// Thread-safe. The file has no name and vanishes with the process.
class FoldedMemory {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{64} << 20;

  // Errors: EnvironmentError where the system gives no 64 MiB file in memory.
  FoldedMemory();

  ~FoldedMemory();
  FoldedMemory(const FoldedMemory&) = delete;
  FoldedMemory& operator=(const FoldedMemory&) = delete;

  // Returns a block of at least `bytes`, readable and writable, aligned to a page: one of that size
  // that was given back, if there is one. A new one takes one memory map of the process per 64 MiB
  // or part of it; the system allows vm.max_map_count of them, 65530 by default.
  // Errors: EnvironmentError when no map or address is left, also without those given back.
  void* map(std::size_t bytes);
  // Takes back what map(bytes) returned, for the next block of that size: mapping is slow.
  void give_back(void* data, std::size_t bytes);

 private:
  void* map_new(std::size_t bytes) const;  // null, with errno set, where that is impossible
  void unmap_idle();

  launch::UniqueFd file_;
  std::mutex mutex_;
  std::multimap<std::size_t, void*> idle_;  // by size
};

// Returns this process's share of physical memory (PSS); nothing where the kernel does not say.
// Cost: a walk over every mapped page, a second per 100 GiB.
std::optional<std::int64_t> physical_bytes();

}  // namespace gradsync::measure
