// torch's ProcessGroupNCCL. Its header is the heaviest of all: one translation unit includes it.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <string>

#include "harness/comm/gpu.h"

namespace gradsync::comm::cuda {

struct NcclBackend {
  c10::intrusive_ptr<c10d::Backend> backend;
  // Throws CommError once torch's watchdog has seen a collective fail or pass its deadline.
  std::function<void()> watch;
};

// Returns a backend bound to GPU `index`. See Gpu::make_nccl_backend.
NcclBackend make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                              const NcclOptions& options, int index);

// Queues a wait for the end of `collective`, one of that backend's, on `stream`.
void await_end(c10d::Work& collective, const c10::cuda::CUDAStream& stream);

// The version of the NCCL that is loaded, as NCCL_VERSION_CODE.
int nccl_version();

}  // namespace gradsync::comm::cuda
