// The entry of libgradsync_cuda.so: which GPUs there are, and one of them opened.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>

#include "harness/base/errors.h"
#include "harness/comm/cuda/check.h"
#include "harness/comm/cuda/cuda_gpu.h"
#include "harness/comm/gpu.h"

namespace gradsync::comm::cuda {
namespace {

// CUDA_VISIBLE_DEVICES as messages show it; empty where it is not set.
std::string visible_devices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES='{}')", value);
}

[[noreturn]] void throw_no_gpu(cudaError_t code) {
  if (code == cudaErrorInsufficientDriver) {
    const std::string driver = driver_version();
    throw EnvironmentError(
        driver == "0.0" ? fmt::format("CUDA {} finds no NVIDIA driver", runtime_version())
                        : fmt::format("the NVIDIA driver is for CUDA {}, and this torch for {}",
                                      driver, runtime_version()),
        "install a newer driver, or use --device cpu --backend gloo");
  }
  throw EnvironmentError(
      fmt::format("CUDA sees no GPU{}: {}", visible_devices(), text_of(code)),
      "set CUDA_VISIBLE_DEVICES to GPUs that nvidia-smi -L lists, or unset it; or use --device cpu "
      "--backend gloo");
}

[[noreturn]] void throw_unusable(int index, cudaError_t code) {
  const std::string gpu = fmt::format("GPU {}{}", index, visible_devices());
  if (code == cudaErrorDevicesUnavailable) {
    throw EnvironmentError(
        fmt::format("{} is busy: another process holds it alone", gpu),
        "end that process, choose another GPU with CUDA_VISIBLE_DEVICES, or allow several "
        "processes: nvidia-smi -c DEFAULT");
  }
  if (code == cudaErrorMemoryAllocation) {
    throw EnvironmentError(fmt::format("{} has too little free memory to begin with", gpu),
                           "end what fills it, or choose another GPU with CUDA_VISIBLE_DEVICES");
  }
  throw EnvironmentError(fmt::format("{} cannot be used: {}", gpu, text_of(code)),
                         "see what nvidia-smi says of it, or choose another one with "
                         "CUDA_VISIBLE_DEVICES");
}

// Makes the GPU this thread's device and its context, which is where a busy one refuses.
void make_current(int index) {
  cudaError_t code = cudaSetDevice(index);
  if (code == cudaSuccess) code = cudaFree(nullptr);
  if (code != cudaSuccess) {
    cudaGetLastError();  // or torch's next check would report it once more
    throw_unusable(index, code);
  }
}

class CudaModule final : public GpuModule {
 public:
  int count() override {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0) return count;
    cudaGetLastError();
    throw_no_gpu(code == cudaSuccess ? cudaErrorNoDevice : code);
  }
  std::unique_ptr<Gpu> open(int index, const Clock& clock, double timeout_s) override {
    make_current(index);
    return make_cuda_gpu(index, clock, timeout_s);
  }
};

}  // namespace
}  // namespace gradsync::comm::cuda

extern "C" gradsync::comm::GpuModule* gradsync_gpu_module() {
  static gradsync::comm::cuda::CudaModule module;
  return &module;
}
