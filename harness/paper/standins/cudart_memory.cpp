// The CUDA runtime of paper: memory and copies.
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>

#include "harness/paper/standins/cudart_error.h"
#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/memory.h"
#include "harness/paper/standins/pools.h"
#include "harness/paper/standins/stream_state.h"
#include "harness/paper/standins/streams.h"

using namespace gradsync::paper;

namespace {

cudaError_t queue_copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { copy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t queue_fill(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { fill(to, value, bytes); });
  return cudaSuccess;
}

// What another process opens: it gets addresses of its own, since values are not shared.
struct IpcName {
  std::size_t bytes;
};
static_assert(sizeof(IpcName) <= sizeof(cudaIpcMemHandle_t));

// Variables of kernels, by the host's address of each, with memory of the device on first use.
void* symbol_memory(const void* symbol) {
  static std::map<const void*, void*> memory;
  void*& found = memory[symbol];
  constexpr std::size_t kMostBytes = std::size_t{64} << 10;  // constant memory is no larger
  if (found == nullptr) found = allocate(Machine::current(), kMostBytes);
  return found;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** block, size_t bytes) {
  *block = bytes == 0 ? nullptr : allocate(Machine::current(), bytes);
  return remember(*block == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocManaged(void** block, size_t bytes, unsigned) {
  return cudaMalloc(block, bytes);
}

cudaError_t cudaFree(void* block) {
  host_waits_for_all();
  return remember(block == nullptr || release(block) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *free_bytes = Machine::here().free_bytes(Machine::current());
  *total = Machine::here().total_bytes();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned) {
  *block = allocate_host(bytes);
  return remember(*block == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocHost(void** block, size_t bytes) {
  return cudaHostAlloc(block, bytes, 0);
}

cudaError_t cudaFreeHost(void* block) {
  return remember(block == nullptr || release_host(block) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void* start, size_t bytes, unsigned) {
  register_host(start, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* start) {
  return remember(unregister_host(start) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const PointerFacts facts = facts_of(address);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->device = facts.device;
  attributes->type = facts.kind == MemoryKind::Device ? cudaMemoryTypeDevice
                     : facts.kind == MemoryKind::Host ? cudaMemoryTypeHost
                                                      : cudaMemoryTypeUnregistered;
  if (facts.kind != MemoryKind::Unregistered) {
    attributes->devicePointer = const_cast<void*>(address);
  }
  if (facts.kind == MemoryKind::Host) attributes->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  host_waits_for(*stream_of(nullptr));
  copy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return queue_copy(to, from, bytes, stream);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return queue_copy(to, from, bytes, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  for (size_t row = 0; width * height <= kMovedBytes && row < height; ++row) {
    queue_copy(static_cast<char*>(to) + row * to_pitch,
               static_cast<const char*>(from) + row * from_pitch, width, stream);
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  fill(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return queue_fill(to, value, bytes, stream);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = symbol_memory(symbol);
  return remember(*address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind) {
  void* start = symbol_memory(symbol);
  if (start == nullptr) return remember(cudaErrorMemoryAllocation);
  copy(static_cast<char*>(start) + offset, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const IpcName name{facts_of(address).bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &name, sizeof name);
  return remember(name.bytes == 0 ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  IpcName name{};
  std::memcpy(&name, &handle, sizeof name);
  *address = reserve_addresses(name.bytes);
  return remember(*address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  free_addresses(address);
  return cudaSuccess;
}

// Memory pools: one a device, the default.

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  *pool = reinterpret_cast<cudaMemPool_t>(&pool_of(device));
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** block, size_t bytes, cudaStream_t) {
  *block = pool_of(Machine::current()).take(bytes);
  return remember(*block == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeAsync(void* block, cudaStream_t) {
  const int device = facts_of(block).device;
  return remember(pool_of(device).give_back(block) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  reinterpret_cast<Pool*>(pool)->trim_to(keep);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
  const Pool& pool = *reinterpret_cast<Pool*>(handle);
  switch (which) {
    case cudaMemPoolAttrReservedMemCurrent:
      *static_cast<std::uint64_t*>(value) = pool.reserved;
      break;
    case cudaMemPoolAttrReservedMemHigh:
      *static_cast<std::uint64_t*>(value) = pool.reserved_peak;
      break;
    case cudaMemPoolAttrUsedMemCurrent:
      *static_cast<std::uint64_t*>(value) = pool.used;
      break;
    case cudaMemPoolAttrUsedMemHigh:
      *static_cast<std::uint64_t*>(value) = pool.used_peak;
      break;
    case cudaMemPoolAttrReleaseThreshold:
      *static_cast<std::uint64_t*>(value) = pool.release_threshold;
      break;
    default:
      *static_cast<int*>(value) = 1;  // how the pool may reuse memory: as it likes
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
  Pool& pool = *reinterpret_cast<Pool*>(handle);
  switch (which) {
    case cudaMemPoolAttrReservedMemHigh:
      pool.reserved_peak = pool.reserved;
      break;
    case cudaMemPoolAttrUsedMemHigh:
      pool.used_peak = pool.used;
      break;
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold = *static_cast<std::uint64_t*>(value);
      break;
    default:
      break;  // how it may reuse memory: it makes no difference here
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return cudaSuccess;
}

}  // extern "C"
