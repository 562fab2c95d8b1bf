// What a GPU adds to what tensors ask for, by hand.
#include "harness/memory/device_memory.h"

#include <gmock/gmock.h>

#include "harness/memory/buckets.h"
#include "harness/memory/ddp_memory.h"
#include "harness/memory/memory_prediction.h"
#include "models/kernels.h"

namespace gradsync::test {
namespace {

using measure::MemoryCategory;
using ::testing::ElementsAre;

constexpr std::int64_t kMiB = 1 << 20;

models::Footprint of_products(bool adds_biases) {
  models::Footprint footprint;
  footprint.adds_biases = adds_biases;
  return footprint;
}

std::int64_t held_at_first(const memory::DeviceMemory& device, bool adds_biases) {
  memory::MemoryAccount account(device);
  account.hold_workspaces(device, of_products(adds_biases));
  return account.memory().peak_bytes;
}

// Two threads multiply; a product that adds a bias needs the other library's in forward.
TEST(DeviceMemory, WorkspacesAreOfTheArchitecture) {
  EXPECT_EQ(held_at_first({}, true), 0) << "the CPU";
  EXPECT_EQ(held_at_first(memory::gpu_memory(9, 0), false), 2 * 32 * kMiB);
  EXPECT_EQ(held_at_first(memory::gpu_memory(9, 0), true), (2 * 32 + 1) * kMiB);
  EXPECT_EQ(held_at_first(memory::gpu_memory(8, 0), true), (2 * 8 + 1) * kMiB + kMiB / 4);
  EXPECT_EQ(held_at_first(memory::gpu_memory(10, 0), false), 2 * 8 * kMiB + kMiB / 4);
}

TEST(DeviceMemory, BlocksAreMultiplesOf512) {
  memory::DeviceMemory gpu{.is_gpu = true};
  memory::MemoryAccount account(gpu);
  account.hold(MemoryCategory::Activation, 1);
  account.hold(MemoryCategory::Activation, 512);
  account.hold(MemoryCategory::Activation, 513);
  EXPECT_EQ(account.memory().peak_bytes, 4 * 512);
  account.free(MemoryCategory::Activation, 513);
  account.hold(MemoryCategory::Other, 600);
  EXPECT_EQ(account.memory().peak_bytes, 4 * 512) << "in its place";
  account.relabel(MemoryCategory::Other, MemoryCategory::UnshardedGradient, 600);
  EXPECT_EQ(bytes_of(account.memory().highest_by_category, MemoryCategory::UnshardedGradient),
            2 * 512);
}

// 15.5 MiB lie alone in a segment of 16 MiB, of which the rest is less than is worth a block.
TEST(DeviceMemory, WhatIsLeftOfASegmentMayStayWithItsBlock) {
  memory::DeviceBlocks blocks;
  EXPECT_EQ(blocks.take(15 * kMiB + kMiB / 2), 16 * kMiB);
  EXPECT_EQ(blocks.latest(15 * kMiB + kMiB / 2), 16 * kMiB);
  EXPECT_EQ(blocks.give(15 * kMiB + kMiB / 2), 16 * kMiB);
  EXPECT_EQ(blocks.take(14 * kMiB), 14 * kMiB) << "the rest of that segment is a block";
}

// Two segments of 2 MiB, and no more.
TEST(DeviceMemory, BeyondItsLimitATensorGetsNothing) {
  memory::MemoryAccount account({.is_gpu = true, .limit_bytes = 4 * kMiB});
  for (int i = 0; i < 4; ++i) account.hold(MemoryCategory::Activation, kMiB);
  EXPECT_FALSE(account.memory().ran_out);
  account.hold(MemoryCategory::Other, 1);
  EXPECT_TRUE(account.memory().ran_out);
  EXPECT_EQ(account.memory().peak_bytes, 4 * kMiB);
  account.free(MemoryCategory::Other, 1);
  account.free(MemoryCategory::Activation, kMiB);
  account.hold(MemoryCategory::Activation, 512);
  EXPECT_EQ(account.memory().peak_bytes, 4 * kMiB);
}

TEST(DeviceMemory, NumbersBesideTensorsStayOnTheHost) {
  models::MemoryScript script;
  script.with_number(1024);
  script.with_integer(2048);
  memory::MemoryAccount cpu;
  play(script, cpu);
  EXPECT_EQ(cpu.memory().peak_bytes, 1024 + 8 + 2048);
  memory::MemoryAccount gpu({.is_gpu = true});
  play(script, gpu);
  EXPECT_EQ(gpu.memory().peak_bytes, 1024 + 2048);
}

// As torch's kernels asked for them on an H100: 1,024 rows, 16 blocks of 128 threads for every 128
// columns.
TEST(DeviceMemory, SumsOfManyRowsAreShared) {
  const models::Kernels h100{.are_gpus = true, .gpu = {132, 2048}};
  EXPECT_EQ(models::sum_buffers(1024, 128, h100), (models::SumBuffers{kMiB, 4}));
  EXPECT_EQ(models::sum_buffers(1024, 512, h100), (models::SumBuffers{4 * kMiB, 16}));
  EXPECT_EQ(models::sum_buffers(1023 - 4, 128, h100), models::SumBuffers{});
  EXPECT_EQ(models::sum_buffers(16, 2, h100), models::SumBuffers{});
  EXPECT_EQ(models::sum_buffers(1024, 128, {}), models::SumBuffers{}) << "the CPU";
}

TEST(DeviceMemory, ABucketIsClosedByTheGradientThatFillsIt) {
  const memory::BucketLimits limits{.first_bytes = 10, .bytes = 30};
  EXPECT_THAT(memory::bucket_bytes({8, 8, 8, 8, 20, 8}, limits), ElementsAre(16, 36, 8));
  EXPECT_THAT(memory::bucket_bytes({}, limits), ElementsAre());
}

TEST(DeviceMemory, APlanOnAGpuSaysWhatIsKnown) {
  launch::LaunchSpec where;
  where.device = "cuda";
  where.backend = "nccl";
  const auto reason = [&](const plan::Cell& cell) {
    return memory::predict_memory(cell, where).unknown_because;
  };
  const plan::Cell cell{.model = "bert_tiny"};
  EXPECT_THAT(reason(cell), ::testing::HasSubstr("depends on the GPU"));
  where.on = "2xh100";
  EXPECT_EQ(reason(cell), "");
  const auto peak = [&] { return memory::predict_memory(cell, where).memory->peak_bytes; };
  const std::int64_t on_h100 = peak();
  where.on = "2xa100-80";
  EXPECT_EQ(on_h100 - peak(), 2 * (32 * kMiB - (8 * kMiB + kMiB / 8)));
  EXPECT_FALSE(memory::predict_memory(cell, where).memory->ran_out);
  plan::Cell limited = cell;
  limited.memory_budget_bytes = 100 * kMiB;
  EXPECT_TRUE(memory::predict_memory(limited, where).memory->ran_out);
  where.on = "2x0.1GiB";
  EXPECT_TRUE(memory::predict_memory(cell, where).memory->ran_out) << "a GPU that is too small";
  where.on = "2xh100";
  plan::Cell long_one = cell;
  long_one.micro_batch_size = 64;
  EXPECT_THAT(reason(long_one), ::testing::HasSubstr("up to 3072 tokens"));
  EXPECT_THAT(reason({.model = "mixtral_tiny", .balanced_routing = true}),
              ::testing::HasSubstr("scaled_dot_product_attention"));
  EXPECT_THAT(reason({.model = "mlp", .dtype = "bfloat16"}), ::testing::HasSubstr("float32"));
  EXPECT_THAT(reason({.model = "mlp", .activation_checkpointing = 1}),
              ::testing::HasSubstr("recomputation"));
  EXPECT_THAT(reason({.model = "paced_bert_base_t4"}), ::testing::HasSubstr("on the CPU"));
  where.backend = "gloo";
  EXPECT_THAT(reason(cell), ::testing::HasSubstr("over NCCL"));
}

}  // namespace
}  // namespace gradsync::test
