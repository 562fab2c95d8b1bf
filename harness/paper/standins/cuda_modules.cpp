// The CUDA driver of paper: modules and kernels, as Triton, NVRTC and cuDNN load them, and streams.
// A module's code is never looked at, and its kernels go nowhere.
#include <cuda.h>

#include "harness/paper/standins/stream_state.h"
#include "harness/paper/standins/streams.h"

using namespace gradsync::paper;

namespace {

// What stands for every module, and for every kernel.
char any_module, any_function;

template <typename Module>
CUresult load(Module* module) {
  *module = reinterpret_cast<Module>(&any_module);
  return CUDA_SUCCESS;
}

template <typename Function>
CUresult find(Function* function) {
  *function = reinterpret_cast<Function>(&any_function);
  return CUDA_SUCCESS;
}

CUresult launch_nothing(CUstream stream) {
  if (stream_of(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  enqueue(stream, [] {});
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char*) {
  return load(module);
}

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  return load(module);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
  return load(module);
}

CUresult cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  return find(function);
}

#if CUDA_VERSION >= 12000
CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return load(library);
}

CUresult cuLibraryUnload(CUlibrary) {
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary) {
  return load(module);
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char*) {
  return find(kernel);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel) {
  return find(function);
}

CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}
#endif

// Little of everything: no kernel spills, none is refused for what it needs.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  *blocks = 2;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = 2;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void**, void**) {
  return launch_nothing(stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void**, void**) {
  return launch_nothing(config->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   unsigned, unsigned, CUstream stream, void**) {
  return launch_nothing(stream);
}

// A descriptor that only kernels read.
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return cuDevicePrimaryCtxRetain(context, stream->device);
}

CUresult cuStreamSynchronize(CUstream handle) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  host_waits_for(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *status = capture_of(*stream) == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

}  // extern "C"
