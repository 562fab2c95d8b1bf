// The entry of libgradsync_cuda.so: which GPUs there are, and one of them opened.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "harness/base/errors.h"
#include "harness/comm/cuda/check.h"
#include "harness/comm/cuda/device_pace.h"
#include "harness/comm/cuda/device_timeline.h"
#include "harness/comm/cuda/nccl_backend.h"
#include "harness/comm/gpu.h"

namespace gradsync::comm::cuda {
namespace {

using nlohmann::json;
namespace caching = c10::cuda::CUDACachingAllocator;

// CUDA_VISIBLE_DEVICES as messages show it; empty where it is not set.
std::string visible_devices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES='{}')", value);
}

// "13.0" of CUDA's 13000.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return cuda_version(version);
}

std::string runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return cuda_version(version);
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
c10::DeviceIndex opened(int index) {
  cudaError_t code = cudaSetDevice(index);
  if (code == cudaSuccess) code = cudaFree(nullptr);
  if (code != cudaSuccess) {
    cudaGetLastError();  // or torch's next check would report it once more
    throw_unusable(index, code);
  }
  at::globalContext().lazyInitDevice(at::kCUDA);  // torch's allocator among others
  return static_cast<c10::DeviceIndex>(index);
}

// As nvidia-smi writes it: GPU-, then 4, 2, 2, 2 and 6 bytes.
std::string uuid_of(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    if (i >= 4 && i <= 10 && i % 2 == 0) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int index, const Clock& clock, double timeout_s)
      : index_(opened(index)),
        timeline_(index, clock, timeout_s),
        after_nccl_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_)) {}

  std::int64_t mark() override { return timeline_.mark(); }
  std::vector<std::int64_t> reached(const std::function<void()>& progress) override {
    return timeline_.reached(progress);
  }
  void forget() override { timeline_.forget(); }

  json description() const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    std::array<char, 32> bus_id{};
    check(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index_), "cudaDeviceGetPCIBusId");
    const int nccl = nccl_version();
    return {{"name", properties.name},
            {"uuid", uuid_of(properties)},
            {"pci_bus_id", bus_id.data()},
            {"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)},
            {"memory_bytes", properties.totalGlobalMem},
            {"driver", driver_version()},
            {"runtime", runtime_version()},
            {"nccl", fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100)}};
  }

  int nccl_version() const override { return cuda::nccl_version(); }

  c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const NcclOptions& options) override {
    NcclBackend nccl = cuda::make_nccl_backend(store, options, index_);
    timeline_.set_watch(nccl.watch);
    nccl_ = nccl.backend;
    return nccl_;
  }

  std::int64_t mark_end(c10d::Work& collective) override {
    await_end(collective, after_nccl_);
    const c10::cuda::CUDAStreamGuard guard(after_nccl_);
    return timeline_.mark();
  }

  MemoryPeaks peaks() const override {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = caching::getDeviceStats(index_);
    return {stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak};
  }
  void reset_peaks() override { caching::resetPeakStats(index_); }

  void set_memory_budget(std::int64_t bytes) override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    const double share =
        static_cast<double>(bytes) / static_cast<double>(properties.totalGlobalMem);
    caching::setMemoryFraction(std::min(1.0, share), index_);
  }

  std::shared_ptr<const models::Pace> pace() override { return device_pace(index_); }

 private:
  c10::DeviceIndex index_;
  DeviceTimeline timeline_;
  c10::cuda::CUDAStream after_nccl_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // the watch looks at it
};

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
    return std::make_unique<CudaGpu>(index, clock, timeout_s);
  }
};

}  // namespace
}  // namespace gradsync::comm::cuda

extern "C" gradsync::comm::GpuModule* gradsync_gpu_module() {
  static gradsync::comm::cuda::CudaModule module;
  return &module;
}
