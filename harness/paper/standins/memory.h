// Memory of paper, as the runtime and the driver hand it out: blocks of a device, pinned memory of
// the host, and virtual memory that is mapped bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradsync::paper {

enum class MemoryKind { Unregistered, Host, Device };

struct PointerFacts {
  MemoryKind kind = MemoryKind::Unregistered;
  int device = 0;
  void* start = nullptr;
  std::size_t bytes = 0;
};

// Returns device memory; null where the device has not that much left.
void* allocate(int device, std::size_t bytes);
// False where `block` is none that allocate() returned.
bool release(void* block);

// Pinned memory of the host, real; null where the host has none.
void* allocate_host(std::size_t bytes);
bool release_host(void* block);
void register_host(void* start, std::size_t bytes);
bool unregister_host(void* start);

PointerFacts facts_of(const void* address);

// Virtual memory: addresses first, then memory of a device mapped there. What is mapped where makes
// no difference, since no kernel runs; only what the handles hold counts.
void* reserve_addresses(std::size_t bytes);
void free_addresses(void* start);
// Returns a handle, or 0 where the device has not that much left.
std::uint64_t make_handle(int device, std::size_t bytes);
bool release_handle(std::uint64_t handle);
// False where there is no such handle.
bool map_handle(void* start, std::uint64_t handle);
void unmap(void* start, std::size_t bytes);

// Copies what is small. Above kMovedBytes nothing moves and no memory is touched.
inline constexpr std::size_t kMovedBytes = std::size_t{1} << 20;
void copy(void* to, const void* from, std::size_t bytes);
void fill(void* to, int value, std::size_t bytes);

}  // namespace gradsync::paper
