#include "harness/comm/cuda/device_timeline.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <limits>

#include "harness/base/errors.h"
#include "harness/comm/cuda/check.h"

namespace gradsync::comm::cuda {
namespace {

// Longer leaves the processor to others; shorter ends a block's wait sooner.
constexpr std::int64_t kPollNs = 100'000;
// Attempts at reading the host's clock close to the reference.
constexpr int kReferences = 8;

c10::DeviceIndex device(int index) {
  return static_cast<c10::DeviceIndex>(index);
}

}  // namespace

DeviceTimeline::DeviceTimeline(int index, const Clock& clock, double timeout_s)
    : index_(index),
      clock_(clock),
      timeout_s_(timeout_s),
      computing_(c10::cuda::getCurrentCUDAStream(device(index)).stream()),
      reference_(take_event()) {
  take_reference();
}

DeviceTimeline::~DeviceTimeline() {
  for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
  for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
  cudaEventDestroy(reference_);
}

std::int64_t DeviceTimeline::mark() {
  const c10::cuda::CUDAGuard guard(device(index_));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device(index_)).stream();
  const std::lock_guard lock(mutex_);
  const cudaEvent_t event = take_event();
  check(cudaEventRecord(event, stream), "cudaEventRecord");
  marks_.push_back({event, last_computing_});
  const auto number = static_cast<std::int64_t>(marks_.size()) - 1;
  if (stream == computing_) last_computing_ = number;
  return number;
}

std::vector<std::int64_t> DeviceTimeline::reached(const std::function<void()>& progress) {
  const c10::cuda::CUDAGuard guard(device(index_));
  std::vector<Mark> marks;
  {
    const std::lock_guard lock(mutex_);
    marks = marks_;
  }
  std::vector<measure::Gap> gaps;
  gaps.reserve(marks.size());
  for (const Mark& mark : marks) {
    await(mark.event);
    if (progress) progress();
    const cudaEvent_t since =
        mark.since < 0 ? reference_ : marks[static_cast<std::size_t>(mark.since)].event;
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, since, mark.event), "cudaEventElapsedTime");
    gaps.push_back({mark.since, elapsed_ms});
  }
  // A collective that was aborted lets the queue go on as if it had been done.
  if (watch_) watch_();
  return measure::moments(reference_ns_, gaps);
}

void DeviceTimeline::forget() {
  reached({});
  const std::lock_guard lock(mutex_);
  for (const Mark& mark : marks_) spare_.push_back(mark.event);
  marks_.clear();
  last_computing_ = -1;
  take_reference();
}

cudaEvent_t DeviceTimeline::take_event() {
  if (!spare_.empty()) {
    const cudaEvent_t event = spare_.back();
    spare_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

// Not cudaEventSynchronize: a collective whose peer is gone would hold it forever.
void DeviceTimeline::await(cudaEvent_t event) {
  const std::int64_t deadline_ns = clock_.now_ns() + nanoseconds(timeout_s_);
  for (;;) {
    const cudaError_t code = cudaEventQuery(event);
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) check(code, "cudaEventQuery");
    if (watch_) watch_();
    if (clock_.now_ns() > deadline_ns) {
      throw CommError(fmt::format("the GPU got no further for {:.0f} s", timeout_s_), true);
    }
    clock_.sleep_until_ns(clock_.now_ns() + kPollNs);
  }
}

// The host's time of the reference lies between a reading before it was queued and one after it was
// reached: the attempt that leaves the least between them counts.
void DeviceTimeline::take_reference() {
  check(cudaStreamSynchronize(computing_), "cudaStreamSynchronize");
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();
  cudaEvent_t candidate = take_event();
  for (int i = 0; i < kReferences; ++i) {
    const std::int64_t before_ns = clock_.now_ns();
    check(cudaEventRecord(candidate, computing_), "cudaEventRecord");
    check(cudaEventSynchronize(candidate), "cudaEventSynchronize");
    const std::int64_t after_ns = clock_.now_ns();
    if (after_ns - before_ns >= least_ns) continue;
    least_ns = after_ns - before_ns;
    reference_ns_ = before_ns + least_ns / 2;
    std::swap(candidate, reference_);
  }
  spare_.push_back(candidate);
}

}  // namespace gradsync::comm::cuda
