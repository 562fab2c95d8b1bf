// The GPU behind comm::Gpu: its marks, torch's allocator, and torch's ProcessGroupNCCL.
#pragma once

#include <memory>
#include <string>

#include "harness/base/clock.h"
#include "harness/comm/gpu.h"

namespace gradsync::comm::cuda {

// Returns GPU `index`, which must be this thread's current device.
std::unique_ptr<Gpu> make_cuda_gpu(int index, const Clock& clock, double timeout_s);

// CUDA's versions as texts: "13.0". The driver's is that up to which it serves, "0.0" without one.
std::string driver_version();
std::string runtime_version();

}  // namespace gradsync::comm::cuda
