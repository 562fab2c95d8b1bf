// The report of a failing rank, by what was thrown.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "harness/base/errors.h"
#include "harness/run/rank_main.h"

namespace gradsync::run {
namespace {

std::string status_of(const std::exception& error) {
  return rank_failure(error, launch::RankProgress{}).status;
}

TEST(RankFailure, IsOutOfMemoryWhoeverAskedForIt) {
  EXPECT_EQ(status_of(std::bad_alloc()), "oom");
  EXPECT_EQ(status_of(c10::OutOfMemoryError(c10::SourceLocation{}, "no more")), "oom");
  // As torch 2.11 words them: of the driver, cuBLAS, cuDNN, and NCCL 2.28 and before.
  for (const char* what :
       {"CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "NCCL error in: NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for "
        "details), NCCL version 2.28.9\nncclUnhandledCudaError: Call to CUDA function failed.\n"
        "Last error:\nCuda failure 2 'out of memory'",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of "
        "memory'"}) {
    EXPECT_EQ(status_of(std::runtime_error(what)), "oom") << what;
  }
}

TEST(RankFailure, IsNotOutOfMemoryWhereACudaCallFailedOtherwise) {
  for (const char* what :
       {"CUDA error: an illegal memory access was encountered",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 719 "
        "'unspecified launch failure'"}) {
    EXPECT_EQ(status_of(std::runtime_error(what)), "failed") << what;
  }
  EXPECT_EQ(status_of(ConfigError("steps: got 0")), "config");
  EXPECT_EQ(status_of(CommError("gone", /*timed_out=*/true)), "timeout");
}

}  // namespace
}  // namespace gradsync::run
