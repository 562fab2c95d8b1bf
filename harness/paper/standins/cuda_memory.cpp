// The CUDA driver of paper: memory, and virtual memory, of which torch makes expandable segments.
#include <cuda.h>

#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/memory.h"
#include "harness/paper/standins/streams.h"

using namespace gradsync::paper;

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

void* address(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(pointer);
}

CUresult success_if(bool is_well) {
  return is_well ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* block, size_t bytes) {
  *block = reinterpret_cast<CUdeviceptr>(allocate(Machine::current(), bytes));
  return *block == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr block) {
  return success_if(release(address(block)));
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) {
  *free_bytes = Machine::here().free_bytes(Machine::current());
  *total = Machine::here().total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  *block = allocate_host(bytes);
  return *block == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* block) {
  return success_if(release_host(block));
}

CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* bytes, CUdeviceptr pointer) {
  const PointerFacts facts = facts_of(address(pointer));
  if (facts.start == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (start != nullptr) *start = reinterpret_cast<CUdeviceptr>(facts.start);
  if (bytes != nullptr) *bytes = facts.bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr pointer) {
  const PointerFacts facts = facts_of(address(pointer));
  if (facts.kind == MemoryKind::Unregistered) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) =
          facts.kind == MemoryKind::Device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = facts.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = reinterpret_cast<CUdeviceptr>(facts.start);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = facts.bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream) {
  enqueue(stream, [=] {
    for (std::size_t i = 0; words * sizeof value <= kMovedBytes && i < words; ++i) {
      copy(static_cast<unsigned*>(address(to)) + i, &value, sizeof value);
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  enqueue(stream, [=] { fill(address(to), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  copy(address(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  copy(to, address(from), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  enqueue(stream, [=] { copy(address(to), from, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  enqueue(stream, [=] { copy(to, address(from), bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* start, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  *start = reinterpret_cast<CUdeviceptr>(reserve_addresses(bytes));
  return *start == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr start, size_t) {
  free_addresses(address(start));
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  *handle = make_handle(properties->location.id, bytes);
  return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return success_if(release_handle(handle));
}

CUresult cuMemMap(CUdeviceptr start, size_t, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  return success_if(map_handle(address(start), handle));
}

CUresult cuMemUnmap(CUdeviceptr start, size_t bytes) {
  unmap(address(start), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

}  // extern "C"
