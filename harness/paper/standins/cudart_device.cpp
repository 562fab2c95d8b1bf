// The CUDA runtime of paper: devices, errors and versions.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <iterator>

#include "harness/paper/standins/attributes.h"
#include "harness/paper/standins/cudart_error.h"
#include "harness/paper/standins/driver_entry.h"
#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/stream_state.h"

namespace gradsync::paper {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

// Those that paper returns, in the runtime's words.
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported on GPUs of paper"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed now"},
};

const ErrorText* text_of(cudaError_t error) {
  for (const ErrorText& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

void describe_limits(cudaDeviceProp& properties, int device) {
  const auto value = [device](cudaDeviceAttr which) { return attribute(device, which); };
  properties.sharedMemPerBlock = value(cudaDevAttrMaxSharedMemoryPerBlock);
  properties.sharedMemPerBlockOptin = value(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  properties.sharedMemPerMultiprocessor = value(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  properties.reservedSharedMemPerBlock = value(cudaDevAttrReservedSharedMemoryPerBlock);
  properties.regsPerBlock = value(cudaDevAttrMaxRegistersPerBlock);
  properties.regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerMultiprocessor);
  properties.warpSize = value(cudaDevAttrWarpSize);
  properties.memPitch = value(cudaDevAttrMaxPitch);
  properties.maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
  properties.maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties.maxBlocksPerMultiProcessor = value(cudaDevAttrMaxBlocksPerMultiprocessor);
  properties.totalConstMem = value(cudaDevAttrTotalConstantMemory);
  properties.textureAlignment = value(cudaDevAttrTextureAlignment);
  properties.texturePitchAlignment = value(cudaDevAttrTexturePitchAlignment);
  properties.surfaceAlignment = value(cudaDevAttrSurfaceAlignment);
  properties.l2CacheSize = value(cudaDevAttrL2CacheSize);
  properties.memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  properties.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  properties.multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
  for (int i = 0; i < 3; ++i) {
    properties.maxThreadsDim[i] = value(static_cast<cudaDeviceAttr>(cudaDevAttrMaxBlockDimX + i));
    properties.maxGridSize[i] = value(static_cast<cudaDeviceAttr>(cudaDevAttrMaxGridDimX + i));
  }
}

void describe_features(cudaDeviceProp& properties) {
  properties.canMapHostMemory = properties.concurrentKernels = properties.ECCEnabled = 1;
  properties.unifiedAddressing = properties.streamPrioritiesSupported = 1;
  properties.globalL1CacheSupported = properties.localL1CacheSupported = 1;
  properties.managedMemory = properties.concurrentManagedAccess = 1;
  properties.computePreemptionSupported = properties.cooperativeLaunch = 1;
  properties.hostRegisterSupported = properties.memoryPoolsSupported = 1;
  properties.ipcEventSupported = 1;
  properties.clusterLaunch = properties.major >= 9 ? 1 : 0;
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t check_device(int device) {
  return remember(Machine::here().has(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

}  // namespace gradsync::paper

using namespace gradsync::paper;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine::here().count();
  return remember(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = Machine::current();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = check_device(device)) return error;
  Machine::set_current(device);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  const Machine& machine = Machine::here();
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "%s", machine.name().c_str());
  std::memcpy(properties->uuid.bytes, machine.uuid(device).data(), sizeof properties->uuid.bytes);
  properties->totalGlobalMem = machine.total_bytes();
  properties->major = machine.model().major;
  properties->minor = machine.model().minor;
  properties->pciBusID = attribute(device, cudaDevAttrPciBusId);
  describe_limits(*properties, device);
  describe_features(*properties);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  *value = attribute(device, which);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  std::snprintf(text, static_cast<std::size_t>(size), "%s",
                Machine::here().pci_bus_id(device).c_str());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  for (*device = 0; *device < Machine::here().count(); ++*device) {
    if (Machine::here().pci_bus_id(*device) == text) return cudaSuccess;
  }
  return remember(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (const cudaError_t error = check_device(device)) return error;
  if (const cudaError_t error = check_device(peer)) return error;
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return check_device(peer);
}

cudaError_t cudaDeviceSynchronize() {
  host_waits_for_all();
  return cudaSuccess;
}

cudaError_t cudaDeviceReset() {
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* known = text_of(error);
  return known == nullptr ? "cudaErrorUnknown" : known->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* known = text_of(error);
  return known == nullptr ? "unrecognized error code" : known->text;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION + gradsync::paper::kDriverDigit;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}

cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

// Finds what a library asks of the driver by name; not found is an answer, not an error.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = driver_entry(symbol);
  if (result != nullptr) {
    *result =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
