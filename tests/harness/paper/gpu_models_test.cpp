#include "harness/paper/gpu_models.h"

#include <gmock/gmock.h>

namespace gradsync::paper {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  std::string wrong;
  EXPECT_EQ(parse_gpus(text, wrong).count, 0) << text;
  return wrong;
}

TEST(GpuModels, AreReadByNumberAndName) {
  std::string wrong;
  const Gpus gpus = parse_gpus("8xH100", wrong);
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(gpus.count, 8);
  EXPECT_EQ(gpus.model.product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpus.memory_bytes(), 84'943'044'608U);  // as an H100's driver says
  EXPECT_EQ(parse_gpus("t4", wrong).count, 1);
}

TEST(GpuModels, HaveTheMemoryThatIsAskedFor) {
  std::string wrong;
  const Gpus gpus = parse_gpus("2x94.5GiB", wrong);
  EXPECT_EQ(gpus.count, 2);
  EXPECT_EQ(gpus.memory_bytes(), 189 * (std::uint64_t{1} << 29));
  EXPECT_EQ(gpus.model.major, 9);
}

TEST(GpuModels, WhatIsNotUnderstoodIsSaid) {
  EXPECT_THAT(refusal("8xh1000"), HasSubstr("GPUs '8xh1000'"));
  EXPECT_THAT(refusal("8xh1000"), HasSubstr("h100, h200"));
  for (const char* text : {"", "8x", "0xh100", "65xh100", "-1xh100", "8x0GiB", "8xGiB", "8x1MiB"}) {
    EXPECT_THAT(refusal(text), HasSubstr("expected")) << text;
  }
}

TEST(GpuModels, HaveNoLimitOfZero) {
  for (const GpuModel& model : gpu_models()) {
    const ArchitectureLimits limits = limits_of(model);
    for (const int limit : {model.multiprocessors, model.l2_mib, limits.threads_per_multiprocessor,
                            limits.blocks_per_multiprocessor, limits.shared_kib_per_multiprocessor,
                            limits.shared_kib_per_block}) {
      EXPECT_GT(limit, 0) << model.name;
    }
    EXPECT_GE(limits.shared_kib_per_multiprocessor, limits.shared_kib_per_block);
  }
}

}  // namespace
}  // namespace gradsync::paper
