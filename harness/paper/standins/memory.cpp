#include "harness/paper/standins/memory.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "harness/paper/standins/address_space.h"
#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/unwritten.h"

namespace gradsync::paper {
namespace {

constexpr std::size_t kPage = 4096;

struct Holding {
  int device = 0;
  std::size_t bytes = 0;
};

// Memory of a device behind a handle: held until it is released and mapped nowhere.
struct Handle : Holding {
  int mapped = 0;
  bool is_released = false;
};

// Never destroyed: blocks are freed by destructors of static objects, too.
struct Books {
  std::mutex mutex;
  AddressSpace addresses;
  std::map<void*, Holding> blocks;            // of devices, by start
  std::map<const char*, std::size_t> pinned;  // of the host, by start
  std::map<std::uint64_t, Handle> handles;
  std::map<void*, std::uint64_t> handle_at;  // of reserved addresses that something is mapped to
  std::uint64_t next_handle = 1;
};

Books& books() {
  static Books* all = new Books;
  return *all;
}

void drop_if_unused(Books& all, std::uint64_t number) {
  const Handle& handle = all.handles.at(number);
  if (!handle.is_released || handle.mapped > 0) return;
  Machine::here().discharge(handle.device, handle.bytes);
  all.handles.erase(number);
}

}  // namespace

void* allocate(int device, std::size_t bytes) {
  Books& all = books();
  if (!Machine::here().charge(device, bytes)) return nullptr;
  void* block = all.addresses.take(bytes);
  if (block == nullptr) {
    Machine::here().discharge(device, bytes);
    return nullptr;
  }
  const std::lock_guard lock(all.mutex);
  all.blocks[block] = {device, bytes};
  return block;
}

bool release(void* block) {
  Books& all = books();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.blocks.find(block);
    if (found == all.blocks.end()) return false;
    Machine::here().discharge(found->second.device, found->second.bytes);
    forget_written(block, found->second.bytes);
    all.blocks.erase(found);
  }
  all.addresses.give_back(block);
  return true;
}

void* allocate_host(std::size_t bytes) {
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  void* block = std::aligned_alloc(kPage, size == 0 ? kPage : size);
  if (block != nullptr) register_host(block, bytes);
  return block;
}

bool release_host(void* block) {
  if (!unregister_host(block)) return false;
  std::free(block);
  return true;
}

void register_host(void* start, std::size_t bytes) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  all.pinned[static_cast<char*>(start)] = bytes;
}

bool unregister_host(void* start) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  return all.pinned.erase(static_cast<char*>(start)) > 0;
}

PointerFacts facts_of(const void* address) {
  Books& all = books();
  const char* at = static_cast<const char*>(address);
  const std::lock_guard lock(all.mutex);
  if (all.addresses.contains(address)) {
    PointerFacts facts{MemoryKind::Device};
    facts.start = all.addresses.block_of(address, facts.bytes);
    if (const auto block = all.blocks.find(facts.start); block != all.blocks.end()) {
      facts.device = block->second.device;
      facts.bytes = block->second.bytes;
    } else if (auto mapped = all.handle_at.upper_bound(const_cast<char*>(at));
               mapped != all.handle_at.begin()) {
      facts.device = all.handles.at(std::prev(mapped)->second).device;
    }
    return facts;
  }
  auto host = all.pinned.upper_bound(at);
  if (host == all.pinned.begin()) return {};
  --host;
  if (at >= host->first + host->second) return {};
  return {MemoryKind::Host, 0, const_cast<char*>(host->first), host->second};
}

void* reserve_addresses(std::size_t bytes) {
  return books().addresses.take(bytes);
}

void free_addresses(void* start) {
  books().addresses.give_back(start);
}

std::uint64_t make_handle(int device, std::size_t bytes) {
  Books& all = books();
  if (!Machine::here().charge(device, bytes)) return 0;
  const std::lock_guard lock(all.mutex);
  all.handles[all.next_handle] = Handle{{device, bytes}};
  return all.next_handle++;
}

bool release_handle(std::uint64_t handle) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  const auto found = all.handles.find(handle);
  if (found == all.handles.end()) return false;
  found->second.is_released = true;
  drop_if_unused(all, handle);
  return true;
}

bool map_handle(void* start, std::uint64_t handle) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  const auto found = all.handles.find(handle);
  if (found == all.handles.end()) return false;
  ++found->second.mapped;
  all.handle_at[start] = handle;
  return true;
}

void unmap(void* start, std::size_t bytes) {
  Books& all = books();
  forget_written(start, bytes);
  all.addresses.forget(start, bytes);
  const std::lock_guard lock(all.mutex);
  char* end = static_cast<char*>(start) + bytes;
  for (auto at = all.handle_at.lower_bound(start); at != all.handle_at.end() && at->first < end;) {
    --all.handles.at(at->second).mapped;
    drop_if_unused(all, at->second);
    at = all.handle_at.erase(at);
  }
}

void copy(void* to, const void* from, std::size_t bytes) {
  note_copy(to, from, bytes);
  if (bytes <= kMovedBytes) std::memmove(to, from, bytes);
}

void fill(void* to, int value, std::size_t bytes) {
  note_written(to, bytes);
  if (bytes <= kMovedBytes) std::memset(to, value, bytes);
}

}  // namespace gradsync::paper
