#include "harness/session/time_variables.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gradsync::session {
namespace {

// Which instructions the CPU's kernels use.
constexpr std::array<std::string_view, 3> kOfCpu{"DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
                                                 "ONEDNN_MAX_CPU_ISA"};

constexpr std::array<std::string_view, 16> kOfGpu{"CUBLASLT_WORKSPACE_SIZE",
                                                  "CUBLAS_WORKSPACE_CONFIG",
                                                  "CUDA_AUTO_BOOST",
                                                  "CUDA_DEVICE_MAX_CONNECTIONS",
                                                  "CUDA_DEVICE_ORDER",
                                                  "CUDA_LAUNCH_BLOCKING",
                                                  "CUDA_MODULE_LOADING",
                                                  "CUDA_SCALE_LAUNCH_QUEUES",
                                                  "NVIDIA_TF32_OVERRIDE",
                                                  "PYTORCH_ALLOC_CONF",
                                                  "PYTORCH_CUDA_ALLOC_CONF",
                                                  "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                                  "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                                  "TORCH_BLAS_PREFER_CUBLASLT",
                                                  "TORCH_CUDNN_V8_API_DISABLED",
                                                  "TORCH_LINALG_PREFER_CUSOLVER"};

// Every setting of a library counts, except names of a job, a log or a file.
constexpr std::array<std::string_view, 2> kFamilies{"NCCL_", "TORCH_NCCL_"};
constexpr std::array<std::string_view, 5> kNamesOnly{"NCCL_COMM_ID", "NCCL_DEBUG_FILE",
                                                     "NCCL_HOSTID", "TORCH_NCCL_DEBUG_INFO_PIPE",
                                                     "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_of_gpu(std::string_view name) {
  if (contains(kOfGpu, name)) return true;
  return !contains(kNamesOnly, name) &&
         std::ranges::any_of(kFamilies,
                             [&](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

std::map<std::string, std::string> time_variables(const launch::Environment& environment,
                                                  const std::string& device) {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : environment) {
    if (contains(kOfCpu, name) || (device != "cpu" && is_of_gpu(name))) found[name] = value;
  }
  return found;
}

}  // namespace gradsync::session
