#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "harness/comm/cuda/check.h"
#include "harness/comm/cuda/cuda_gpu.h"
#include "harness/comm/cuda/device_clock.h"
#include "harness/comm/cuda/pace_kernels.h"

namespace gradsync::comm::cuda {
namespace {

// Its start lies in the device's memory: the host that queues the waits does not know it.
class DeviceStretch final : public models::Stretch {
 public:
  explicit DeviceStretch(c10::DeviceIndex index)
      : index_(index),
        memory_(c10::cuda::CUDACachingAllocator::get()->allocate(sizeof(std::uint64_t))) {
    check(queue_now(start_ns(), stream()), "queue_now");
  }
  void await(std::int64_t offset_ns) override {
    check(queue_wait(start_ns(), static_cast<std::uint64_t>(offset_ns), stream()), "queue_wait");
  }

 private:
  std::uint64_t* start_ns() const { return static_cast<std::uint64_t*>(memory_.get()); }
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(index_).stream(); }

  c10::DeviceIndex index_;
  c10::DataPtr memory_;
};

class DevicePace final : public models::Pace {
 public:
  explicit DevicePace(int index) : index_(static_cast<c10::DeviceIndex>(index)) {}

  std::unique_ptr<models::Stretch> begin() const override {
    std::call_once(checked_, [this] { check_clock(); });
    return std::make_unique<DeviceStretch>(index_);
  }
  std::unique_ptr<models::Stretch> begin_after(const models::Stretch& /*before*/,
                                               std::int64_t /*offset_ns*/) const override {
    return begin();
  }

 private:
  // Waits for the stream, once, before the first layer.
  void check_clock() const {
    const c10::DataPtr memory =
        c10::cuda::CUDACachingAllocator::get()->allocate(sizeof(std::uint64_t));
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(index_).stream();
    check(queue_measure_step(static_cast<std::uint64_t*>(memory.get()), stream),
          "queue_measure_step");
    std::uint64_t step_ns = 0;
    check(cudaMemcpyAsync(&step_ns, memory.get(), sizeof step_ns, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (const auto obstacle = clock_obstacle(step_ns)) throw *obstacle;
  }

  c10::DeviceIndex index_;
  mutable std::once_flag checked_;
};

}  // namespace

std::shared_ptr<const models::Pace> device_pace(int index) {
  return std::make_shared<DevicePace>(index);
}

}  // namespace gradsync::comm::cuda
