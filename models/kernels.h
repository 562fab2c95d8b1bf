// Which kernels of torch run. A GPU's save and need other tensors in places.   No torch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gradsync::models {

// A GPU, as far as its kernels divide their work by it.
struct GpuLimits {
  std::int64_t multiprocessors = 0;
  std::int64_t threads_per_multiprocessor = 0;
};

struct Kernels {
  bool are_gpus = false;  // else the CPU's
  GpuLimits gpu = {};
};

// What a sum of many rows needs while it runs, in bytes; nothing where one block of threads does
// it.
struct SumBuffers {
  std::int64_t partial_sums = 0;
  std::int64_t counters = 0;  // of blocks that are done

  bool operator==(const SumBuffers&) const = default;
};

// Returns what the sum over the rows of a contiguous matrix of float32 needs.
// Source: setReduceConfig and ReduceConfig in aten/src/ATen/native/cuda/Reduce.cuh, torch 2.11.
inline SumBuffers sum_buffers(std::int64_t rows, std::int64_t columns, const Kernels& kernels) {
  constexpr std::int64_t kMostThreads = 512;  // of a block
  constexpr std::int64_t kWarp = 32;
  constexpr std::int64_t kFewestValues = 16;  // that a thread is worth,
  constexpr std::int64_t kMostValues = 256;   // and at which blocks share its work
  constexpr std::int64_t kNumberBytes = 4;
  const auto quotient = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  const auto power_of_2 = [](std::int64_t most) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
  };
  if (!kernels.are_gpus) return {};
  const std::int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;  // loaded together
  const std::int64_t threads = kMostThreads / vector;
  const std::int64_t wide = power_of_2(std::min(columns / vector, threads));
  const std::int64_t height =
      std::min(power_of_2(std::min(rows, threads)), threads / std::min(wide, kWarp));
  const std::int64_t width = std::min(wide, threads / height);
  const std::int64_t values = quotient(rows, height);  // of a thread
  if (rows < std::min(height * kFewestValues, kMostValues) || values < kMostValues) return {};
  const std::int64_t grid = quotient(columns / vector, width);
  const std::int64_t resident =
      kernels.gpu.multiprocessors * (kernels.gpu.threads_per_multiprocessor / (width * height));
  if (grid > resident) return {};
  const std::int64_t blocks =
      std::max(std::min(quotient(resident, grid), quotient(values, kFewestValues)),
               quotient(values, kMostValues));
  if (blocks < 2) return {};
  return {kNumberBytes * columns * blocks * width * vector, kNumberBytes * grid};
}

}  // namespace gradsync::models
