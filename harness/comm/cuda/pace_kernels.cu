// Source of %globaltimer: PTX ISA, "Special Registers". It counts nanoseconds for the whole device,
// in steps of about a microsecond on most GPUs; clock64() counts cycles, whose length changes with the clock.
#include "harness/comm/cuda/pace_kernels.h"

namespace gradsync::comm::cuda {
namespace {

// Larger looks at the time less often; smaller makes the multiprocessor busier.
constexpr unsigned kNapNs = 200;
// Steps of the clock that are looked at: the first may be cut. Each may take a millisecond.
constexpr int kSteps = 8;
// Readings after which a clock that has not moved stands still: a second, at 10 ns each.
constexpr std::int64_t kMostReadings = 100'000'000;

__device__ std::uint64_t device_time_ns() {
  std::uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

__global__ void store_now(std::uint64_t* start_ns) {
  *start_ns = device_time_ns();
}

__global__ void wait_until(const std::uint64_t* start_ns, std::uint64_t offset_ns) {
  const std::uint64_t deadline_ns = *start_ns + offset_ns;
  while (device_time_ns() < deadline_ns) __nanosleep(kNapNs);
}

__global__ void measure_step(std::uint64_t* step_ns) {
  std::uint64_t least_ns = kNoStep;
  std::uint64_t last_ns = device_time_ns();
  int steps = 0;
  for (std::int64_t i = 0; i < kMostReadings && steps < kSteps; ++i) {
    const std::uint64_t now_ns = device_time_ns();
    if (now_ns == last_ns) continue;
    if (steps > 0 && now_ns - last_ns < least_ns) least_ns = now_ns - last_ns;
    last_ns = now_ns;
    ++steps;
  }
  *step_ns = least_ns;
}

}  // namespace

cudaError_t queue_measure_step(std::uint64_t* step_ns, cudaStream_t stream) {
  measure_step<<<1, 1, 0, stream>>>(step_ns);
  return cudaGetLastError();
}

cudaError_t queue_now(std::uint64_t* start_ns, cudaStream_t stream) {
  store_now<<<1, 1, 0, stream>>>(start_ns);
  return cudaGetLastError();
}

cudaError_t queue_wait(const std::uint64_t* start_ns, std::uint64_t offset_ns,
                       cudaStream_t stream) {
  wait_until<<<1, 1, 0, stream>>>(start_ns, offset_ns);
  return cudaGetLastError();
}

}  // namespace gradsync::comm::cuda
