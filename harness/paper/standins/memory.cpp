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

// Never destroyed: blocks are freed by destructors of static objects, too.
struct Books {
  std::mutex mutex;
  AddressSpace addresses;
  std::map<void*, Holding> blocks;            // of devices, by start
  std::map<const char*, std::size_t> pinned;  // of the host, by start
  std::map<std::uint64_t, Holding> handles;
  std::map<std::uint64_t, int> mapped;  // how often each handle is mapped
  std::map<void*, std::uint64_t> handle_at;
  std::map<void*, int> device_at;  // of reserved addresses that something is mapped to
  std::uint64_t next_handle = 1;
};

Books& books() {
  static Books* all = new Books;
  return *all;
}

// A handle holds its memory until it is released and mapped nowhere.
void drop_if_unused(Books& all, std::uint64_t handle, bool is_released) {
  static std::map<std::uint64_t, bool> released;
  if (is_released) released[handle] = true;
  if (!released[handle] || all.mapped[handle] > 0) return;
  Machine::here().discharge(all.handles[handle].device, all.handles[handle].bytes);
  all.handles.erase(handle);
  all.mapped.erase(handle);
  released.erase(handle);
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
    } else if (auto mapped = all.device_at.upper_bound(const_cast<char*>(at));
               mapped != all.device_at.begin()) {
      facts.device = std::prev(mapped)->second;
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
  all.handles[all.next_handle] = {device, bytes};
  return all.next_handle++;
}

bool release_handle(std::uint64_t handle) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  if (!all.handles.contains(handle)) return false;
  drop_if_unused(all, handle, true);
  return true;
}

void map_handle(void* start, std::uint64_t handle, std::size_t /*bytes*/) {
  Books& all = books();
  const std::lock_guard lock(all.mutex);
  ++all.mapped[handle];
  all.handle_at[start] = handle;
  all.device_at[start] = all.handles[handle].device;
}

void unmap(void* start, std::size_t bytes) {
  Books& all = books();
  forget_written(start, bytes);
  all.addresses.forget(start, bytes);
  const std::lock_guard lock(all.mutex);
  char* end = static_cast<char*>(start) + bytes;
  for (auto at = all.handle_at.lower_bound(start); at != all.handle_at.end() && at->first < end;) {
    --all.mapped[at->second];
    drop_if_unused(all, at->second, false);
    all.device_at.erase(at->first);
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
