// Marks in the queues of one GPU, as CUDA events. See measure/timeline.h.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <mutex>
#include <vector>

#include "harness/base/clock.h"
#include "harness/measure/timeline.h"

namespace gradsync::comm::cuda {

class DeviceTimeline final : public measure::Timeline {
 public:
  // GPU `index` must be this thread's current device; its current stream is the one that computes.
  DeviceTimeline(int index, const Clock& clock, double timeout_s);
  ~DeviceTimeline() override;
  DeviceTimeline(const DeviceTimeline&) = delete;
  DeviceTimeline& operator=(const DeviceTimeline&) = delete;

  std::int64_t mark() override;
  std::vector<std::int64_t> reached(const std::function<void()>& progress) override;
  void forget() override;

  // Called while reached() waits; may throw what is to end the wait.
  void set_watch(std::function<void()> watch) { watch_ = std::move(watch); }

 private:
  struct Mark {
    cudaEvent_t event;
    std::int64_t since;  // the latest mark before it in the computing stream; -1: the reference
  };

  cudaEvent_t take_event();
  void await(cudaEvent_t event);
  void take_reference();

  int index_;
  const Clock& clock_;
  double timeout_s_;
  cudaStream_t computing_;
  cudaEvent_t reference_;
  std::int64_t reference_ns_ = 0;
  std::function<void()> watch_;
  std::mutex mutex_;  // of what follows
  std::vector<Mark> marks_;
  std::vector<cudaEvent_t> spare_;
  std::int64_t last_computing_ = -1;
};

}  // namespace gradsync::comm::cuda
