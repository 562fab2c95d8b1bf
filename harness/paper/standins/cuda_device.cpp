// The CUDA driver of paper: devices and contexts. A context is a device's primary one, and nothing
// but its number.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "harness/paper/standins/attributes.h"
#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/stream_state.h"

using namespace gradsync::paper;

namespace {

// Contexts by device; a handle is never null.
char contexts[64];

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(&contexts[device]);
}

int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<char*>(context) - contexts);
}

CUresult check(CUdevice device) {
  return Machine::here().has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
     "operation not supported on GPUs of paper"},
};

// False where `error` is none of those that paper returns; then the answer is the first.
bool describe(CUresult error, const char* ErrorText::*what, const char** text) {
  for (const ErrorText& known : kErrors) {
    if (known.error != error) continue;
    *text = known.*what;
    return true;
  }
  *text = "unrecognized error code";
  return false;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return Machine::here().count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION + gradsync::paper::kDriverDigit;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  return describe(error, &ErrorText::name, name) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return describe(error, &ErrorText::text, text) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  *count = Machine::here().count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return check(number);
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(size), "%s", Machine::here().name().c_str());
  return check(device);
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (const CUresult error = check(device)) return error;
  std::memcpy(uuid->bytes, Machine::here().uuid(device).data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = Machine::here().total_bytes();
  return check(device);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (const CUresult error = check(device)) return error;
  *value = attribute(device, which);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  if (const CUresult error = check(device)) return error;
  std::snprintf(text, static_cast<std::size_t>(size), "%s",
                Machine::here().pci_bus_id(device).c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  *can = device == peer ? 0 : 1;
  return check(device) != CUDA_SUCCESS ? check(device) : check(peer);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult error = check(device)) return error;
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return check(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return check(device);
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(Machine::current());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr) Machine::set_current(device_of(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = Machine::current();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  host_waits_for_all();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

}  // extern "C"
