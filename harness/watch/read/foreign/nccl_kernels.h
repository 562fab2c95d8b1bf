// What the GPU of a trace ran, and which of it NCCL's kernels are.
#pragma once

#include <string_view>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

struct NcclKernel {
  const TracedLaunch* launch = nullptr;
  std::string_view name;
  CollectiveOnGpu on_gpu;
};

struct TracedGpu {
  GpuWork work;
  // By launch. Without those that ran when the trace began: what launched them is not in it.
  std::vector<NcclKernel> kernels;
};

// Returns it of the GPU that runs NCCL's kernels or, where none does, of the one that runs most.
// Unknown where the file has no work of a GPU ("" is why), does not tell when some of it ran, or
// has NCCL's kernels of several GPUs. `trace` must outlive it.
Known<TracedGpu> traced_gpu(const TraceFile& trace);

}  // namespace gradsync::watch
