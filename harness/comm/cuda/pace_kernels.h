// The kernels of paced layers. Plain pointers and streams, so that what nvcc compiles needs
// none of torch's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gradsync::comm::cuda {

// Queues a kernel that stores the device's time, in nanoseconds, in `start_ns` on the device.
cudaError_t queue_now(std::uint64_t* start_ns, cudaStream_t stream);

// Queues a kernel that ends when the device's time is `offset_ns` after *start_ns, at once where
// that is past. One thread of one multiprocessor: the others are free for NCCL.
cudaError_t queue_wait(const std::uint64_t* start_ns, std::uint64_t offset_ns, cudaStream_t stream);

// Queues a kernel that stores in `step_ns` on the device the least step by which the device's time
// went on while it looked; kNoStep where it stood still.
inline constexpr std::uint64_t kNoStep = 1'000'000'000;
cudaError_t queue_measure_step(std::uint64_t* step_ns, cudaStream_t stream);

}  // namespace gradsync::comm::cuda
