// CUDA's error codes as exceptions. For the CUDA module only.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace gradsync::comm::cuda {

// "NAME: description" of a code.
inline std::string text_of(cudaError_t code) {
  return fmt::format("{}: {}", cudaGetErrorName(code), cudaGetErrorString(code));
}

// Errors: std::runtime_error naming the call, where it failed.
inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(fmt::format("CUDA error in {}: {}", call, text_of(code)));
}

}  // namespace gradsync::comm::cuda
