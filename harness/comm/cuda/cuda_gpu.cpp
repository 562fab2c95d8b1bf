#include "harness/comm/cuda/cuda_gpu.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "harness/base/errors.h"
#include "harness/comm/cuda/check.h"
#include "harness/comm/cuda/device_timeline.h"

namespace gradsync::comm::cuda {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// "13.0" of CUDA's 13000.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The event that NCCL's stream passes when a collective is done. What is public does more than
// wait: synchronize() lets go of the tensors, and the future ties their memory to the stream that
// waits. This is only for classes derived from WorkNCCL; hence one.
struct EndOf : c10d::ProcessGroupNCCL::WorkNCCL {
  static auto& event(WorkNCCL& work) { return *(work.*(&EndOf::ncclEndEvent_)); }
};

c10::intrusive_ptr<c10d::ProcessGroupNCCL> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const NcclOptions& options,
                                                     c10::DeviceIndex index) {
  // Its streams have normal priority, as in torch.distributed.init_process_group.
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  auto group =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.world_size, nccl);
  // Or a barrier guesses a GPU by the rank's number.
  group->setBoundDeviceId(at::Device(at::kCUDA, index));
  return group;
}

// Errors: CommError once torch's watchdog has seen a collective fail or pass its deadline.
void check_nccl(c10d::ProcessGroupNCCL& nccl, double timeout_s) {
  const c10d::ErrorType error = nccl.getError();
  if (error == c10d::ErrorType::SUCCESS) return;
  if (error == c10d::ErrorType::TIMEOUT) {
    throw CommError(fmt::format("an NCCL collective timed out after {:.0f} s", timeout_s), true);
  }
  throw CommError("an NCCL collective failed: a peer is gone, or the connection to it");
}

int loaded_nccl_version() {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) {
    throw EnvironmentError(
        fmt::format("NCCL does not tell its version: error {}", static_cast<int>(result)),
        "install the NCCL that torch asks for");
  }
  return version;
}

// As nvidia-smi writes it: GPU-, then 4, 2, 2, 2 and 6 bytes. Where CUDA shows an instance, its
// name has the profile: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
std::string uuid_of(const cudaDeviceProp& properties) {
  const bool is_instance =
      std::string_view(properties.name).find(" MIG ") != std::string_view::npos;
  std::string text = is_instance ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    if (i >= 4 && i <= 10 && i % 2 == 0) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int index, const Clock& clock, double timeout_s)
      : index_(static_cast<c10::DeviceIndex>(index)), timeline_(index, clock, timeout_s) {
    timeline_.set_watch([this] {
      for (const Group& group : groups_) check_nccl(*group.nccl, group.timeout_s);
    });
  }

  std::int64_t mark() override { return timeline_.mark(); }
  std::vector<std::int64_t> reached(const std::function<void()>& progress) override {
    return timeline_.reached(progress);
  }
  void forget() override { timeline_.forget(); }

  results::GpuDescription description() const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    std::array<char, 32> bus_id{};
    check(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index_), "cudaDeviceGetPCIBusId");
    const int nccl = loaded_nccl_version();
    return {.name = properties.name,
            .uuid = uuid_of(properties),
            .pci_bus_id = bus_id.data(),
            .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
            .memory_bytes = properties.totalGlobalMem,
            .cuda_driver = driver_version(),
            .cuda_runtime = runtime_version(),
            .nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100)};
  }

  int nccl_version() const override { return loaded_nccl_version(); }

  NcclGroup make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                            const NcclOptions& options) override {
    groups_.push_back({make_nccl(store, options, index_),
                       c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_),
                       options.timeout_s});
    return {groups_.back().nccl, static_cast<int>(groups_.size()) - 1};
  }

  void finish_collectives() override {
    for (const Group& group : groups_) group.nccl->waitForPendingWorks();
  }

  std::int64_t mark_end(c10d::Work& collective, int queue) override {
    const c10::cuda::CUDAStream& after = groups_.at(static_cast<std::size_t>(queue)).after;
    EndOf::event(dynamic_cast<c10d::ProcessGroupNCCL::WorkNCCL&>(collective)).block(after);
    const c10::cuda::CUDAStreamGuard guard(after);
    return timeline_.mark();
  }

  MemoryPeaks peaks() const override {
    const auto stats = caching::getDeviceStats(index_);
    return {stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak};
  }
  void reset_peaks() override { caching::resetPeakStats(index_); }

  void release_unused() override {
    at::cuda::clearCublasWorkspaces();  // made again where products ask for them
    caching::emptyCache();
  }

  void set_memory_budget(std::int64_t bytes) override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    const double share =
        static_cast<double>(bytes) / static_cast<double>(properties.totalGlobalMem);
    caching::setMemoryFraction(std::min(1.0, share), index_);
    if (share >= 1) return;
    release_unused();
    const std::int64_t held = caching::getDeviceStats(index_).reserved_bytes[kAll].current;
    if (held > bytes) {
      C10_THROW_ERROR(OutOfMemoryError,
                      fmt::format("parameters and optimizer alone reserve {} bytes, over a budget "
                                  "of {} bytes",
                                  held, bytes));
    }
  }

  std::shared_ptr<const models::Pace> pace() override { return device_pace(index_); }

 private:
  struct Group {
    c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl;
    c10::cuda::CUDAStream after;  // for nothing but marks behind its collectives
    double timeout_s;
  };

  // The allocator's counts over all of its pools.
  static constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  c10::DeviceIndex index_;
  DeviceTimeline timeline_;
  std::vector<Group> groups_;  // by queue
};

}  // namespace

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

std::unique_ptr<Gpu> make_cuda_gpu(int index, const Clock& clock, double timeout_s) {
  at::globalContext().lazyInitDevice(at::kCUDA);  // torch's allocator among others
  return std::make_unique<CudaGpu>(index, clock, timeout_s);
}

}  // namespace gradsync::comm::cuda
