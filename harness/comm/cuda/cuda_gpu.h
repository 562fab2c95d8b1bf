// The GPU behind comm::Gpu: its marks, torch's allocator, and torch's ProcessGroupNCCL; and the
// pace of layers that occupy its stream for as long as they would compute.
#pragma once

#include <memory>
#include <string>

#include "harness/base/clock.h"
#include "harness/comm/gpu.h"
#include "models/pace.h"

namespace gradsync::comm::cuda {

// Returns GPU `index`, which must be this thread's current device.
std::unique_ptr<Gpu> make_cuda_gpu(int index, const Clock& clock, double timeout_s);

// CUDA's versions as texts: "13.0". The driver's is that up to which it serves, "0.0" without one.
std::string driver_version();
std::string runtime_version();

// Returns the pace of GPU `index`. Errors: of its first stretch, EnvironmentError where the GPU's
// clock is too coarse (device_clock.h). Stretches and waits go to the calling thread's current
// stream of that GPU. A stretch that follows another starts when the queue comes to it: the host is
// ahead, so that is when the one before has ended, unless the host was late.
std::shared_ptr<const models::Pace> device_pace(int index);

}  // namespace gradsync::comm::cuda
