// What of the CUDA module can be seen without a GPU: it loads into a running program, torch learns
// of CUDA from it, and an absent driver is one sentence.
// Covers: cuda/gpu_module.cpp.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/comm/gpu.h"
#include "harness/launch/gpus.h"

namespace gradsync::comm {
namespace {

// One process has one module: all is asked in one test. With torch's CUDA libraries left out, as
// the light set-up does, there is nothing to ask.
TEST(GpuModule, TorchLearnsOfCudaWhenItIsLoadedLate) {
  EXPECT_FALSE(c10::impl::hasDeviceGuardImpl(c10::kCUDA));
  GpuModule* module = nullptr;
  try {
    module = &load_gpu_module();
  } catch (const EnvironmentError& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_TRUE(c10::impl::hasDeviceGuardImpl(c10::kCUDA));
  EXPECT_TRUE(at::detail::getCUDAHooks().hasCUDART());
  const auto all_reduce = c10::Dispatcher::singleton().findSchemaOrThrow("c10d::allreduce_", "");
  EXPECT_TRUE(all_reduce.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  EXPECT_TRUE(add.hasKernelForDispatchKey(c10::DispatchKey::CUDA));

  const auto gpus = launch::probe_gpus();
  if (!gpus || gpus->empty()) {
    try {
      module->count();
      ADD_FAILURE() << "a GPU, and the driver knows of none";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--device cpu"));
    }
  } else {
    EXPECT_GE(module->count(), 1);
  }
}

}  // namespace
}  // namespace gradsync::comm
