// The runtime's last error, which every entry keeps for cudaGetLastError.
#pragma once

#include <cuda_runtime_api.h>

namespace gradsync::paper {

// Keeps an error for the thread and returns it; success changes nothing.
cudaError_t remember(cudaError_t error);

// Returns whether a device of that number is visible, and remembers the error where not.
cudaError_t check_device(int device);

}  // namespace gradsync::paper
