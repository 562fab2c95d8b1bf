// How much memory a device takes for the sizes that tensors ask for, and for its libraries. The
// formulas of a step's memory count sizes asked for (ddp_memory.h, fsdp_memory.h); this file has
// all that differs between a CPU and a GPU.   No torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "harness/measure/caching_allocator_model.h"

namespace gradsync::memory {

struct DeviceMemory {
  // Memory comes from torch's caching allocator, in blocks, and numbers beside tensors stay on the
  // host. False: every tensor takes what it asks for, and so does a number.
  bool is_gpu = false;
  // Workspaces of cuBLAS. Each thread that multiplies matrices keeps `product_bytes` from the first
  // step on: the rank's own in forward, autograd's in backward. The rank's own keeps
  // `biased_product_bytes` for products that add a bias.
  std::int64_t product_bytes = 0;
  std::int64_t biased_product_bytes = 0;
  std::optional<std::int64_t> limit_bytes = {};  // that the allocator may take from the device
};

// Returns a GPU of this compute capability.
// Source: parseChosenWorkspaceSize, getCUDABlasLtWorkspaceSize and setWorkspaceForHandle in
// aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11, a handle for each thread, with neither
// CUBLAS_WORKSPACE_CONFIG nor CUBLASLT_WORKSPACE_SIZE set; addmm goes to cuBLASLt for its bias
// (aten/src/ATen/native/cuda/Blas.cpp).
DeviceMemory gpu_memory(int major, int minor);

// Which stream asks for a block. The allocator keeps each stream's segments apart. fully_shard
// gathers into blocks of one stream and reduces into those of another.
enum class Stream : std::uint8_t { Compute, Gather, Reduce };

// The blocks of a GPU's allocator. A script names one by the size that was asked for, or keeps its
// name.
class DeviceBlocks {
 public:
  using Name = std::uint64_t;

  // `limit_bytes`: of each stream's segments.
  explicit DeviceBlocks(std::optional<std::int64_t> limit_bytes = std::nullopt)
      : allocators_{Allocator(limit_bytes), Allocator(limit_bytes), Allocator(limit_bytes)} {}

  // Returns the name of a block for a tensor of `bytes`.
  Name make(std::int64_t bytes, Stream stream = Stream::Compute);
  void free(Name name);
  std::int64_t bytes_of(Name name) const { return blocks_.at(name).bytes; }

  // Returns the bytes of the block that a tensor of `bytes` gets.
  std::int64_t take(std::int64_t bytes);
  // Return the bytes of the block of the latest tensor of `bytes` that is still held; give() frees
  // it.
  std::int64_t give(std::int64_t bytes);
  std::int64_t latest(std::int64_t bytes) const;
  // Returns whether a tensor got no block, since that would have exceeded the limit.
  bool ran_out() const { return ran_out_; }
  // Exact where no stream gives segments back: without a limit, or with one stream.
  std::int64_t peak_reserved_bytes() const;
  // Forgets earlier peaks; segments stay.
  void reset_peak();
  // Gives back segments in which nothing is held.
  void release_unused();
  // Limits each stream's segments from now on. Those that exist may already exceed it.
  void set_limit(std::optional<std::int64_t> bytes);

 private:
  using Allocator = measure::CachingAllocatorModel;
  struct Block {
    std::int64_t bytes;  // 0: there was none
    Stream stream;
  };
  Allocator& of(Stream stream) { return allocators_[static_cast<std::size_t>(stream)]; }

  std::array<Allocator, 3> allocators_;  // by stream
  std::unordered_map<Name, Block> blocks_;
  std::map<std::int64_t, std::vector<Name>> held_;  // by bytes asked for
  Name next_name_ = 0;
  bool ran_out_ = false;
};

}  // namespace gradsync::memory
