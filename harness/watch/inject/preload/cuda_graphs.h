// CUDA graphs that hold calls of NCCL's: each launch of one runs them anew, and calls nothing.
#pragma once

#include "harness/watch/inject/preload/nccl_abi.h"
#include "harness/watch/inject/preload/nccl_calls.h"

namespace gradsync::watch {

// Returns whether a call on `stream` is captured into a CUDA graph. Then it is kept, and recorded
// whenever the graph is launched.   Cost: of an atomic read while nothing is captured.
bool capture(const NcclCall& call, cudaStream_t stream) noexcept;

}  // namespace gradsync::watch
