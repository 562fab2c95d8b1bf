#include "harness/paper/library_table.h"

namespace gradsync::paper {

// Refusals: CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported, NVML_ERROR_NOT_SUPPORTED,
// CUBLAS_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, CUFFT_NOT_SUPPORTED,
// CURAND_STATUS_INTERNAL_ERROR, CUSPARSE_STATUS_NOT_SUPPORTED, CUSOLVER_STATUS_NOT_SUPPORTED,
// CU_FILE_INTERNAL_ERROR, any but 0 of NVSHMEM, ncclInvalidUsage.
const std::vector<StandIn>& stand_ins() {
  static const std::vector<StandIn> rows{
      {"libcuda",
       "cu(?!File)[A-Z].*",
       {"address_space", "attributes", "cuda_device", "cuda_memory", "cuda_modules", "driver_entry",
        "machine", "memory", "pools", "python_frames", "python_line", "stream_state", "unwritten"},
       801,
       "",
       "cuda.h",
       "libcuda.so.1"},
      {"libcudart",
       "(__)?cuda[A-Z].*",
       {"cudart_device", "cudart_memory", "cudart_registration", "cudart_streams"},
       801,
       "",
       "cuda_runtime_api.h",
       ""},
      {"libnvidia-ml", "nvml[A-Z].*", {"nvml"}, 3, "", "", "libnvidia-ml.so.1"},
      {"libnccl",
       "nccl[A-Z].*",
       {"nccl/collectives", "nccl/communicator", "nccl/communicators", "nccl/groups", "nccl/log",
        "nccl/meeting", "nccl/open", "nccl/operations", "nccl/reduce", "nccl/settings"},
       5,
       "",
       "",
       ""},
      {"libcublas", "cublas(?!Lt).*", {"cublas"}, 15, "cublas([SDCZHI][a-z]|Gemm|DotEx).*", "", ""},
      {"libcublasLt", "cublasLt.*", {"cublaslt"}, 15, "cublasLtMatmul", "", ""},
      {"libcudnn",
       "cudnn.*",
       {"cudnn", "cudnn_graphs"},
       3000,
       "cudnn(Set|Destroy|Convolution|BatchNormalization|PoolingForward).*",
       "",
       ""},
      {"libcufft", "cufft.*", {"cufft"}, 16, "cufft(XtExec|Set.*|Destroy)", "", ""},
      {"libcurand", "curand.*", {}, 999, "", "", ""},
      {"libcusparse", "cusparse(?!Lt).*", {}, 10, "", "", ""},
      {"libcusparseLt", "cusparseLt.*", {}, 10, "", "", ""},
      {"libcusolver", "cusolver.*", {}, 9, "", "", ""},
      {"libcufile", "cuFile.*", {}, 5030, "", "", ""},
      {"libnvshmem_host", "nvshmem.*", {}, 7, "", "", ""},
  };
  return rows;
}

}  // namespace gradsync::paper
