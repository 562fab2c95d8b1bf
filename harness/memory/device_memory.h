// What a device makes of the sizes that tensors ask for, and what its libraries take beside them. A
// step's memory is told once, in sizes asked for (ddp_memory.h, fsdp_memory.h); this is all that
// differs between a CPU and a GPU.   No torch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harness/measure/caching_allocator_model.h"

namespace gradsync::memory {

struct DeviceMemory {
  // Memory comes from torch's caching allocator, in blocks, and numbers beside tensors stay on the
  // host. False: every tensor takes what it asks for, and so does a number.
  bool is_gpu = false;
  // Of cuBLAS: what each thread that multiplies matrices keeps from the first step on, a rank's own
  // in forward and autograd's in backward; and what the former does for products that add a bias.
  std::int64_t product_bytes = 0;
  std::int64_t biased_product_bytes = 0;
  std::optional<std::int64_t> limit_bytes = {};  // that the allocator may take from the device
};

// A GPU of this compute capability.
// Source: parseChosenWorkspaceSize, getCUDABlasLtWorkspaceSize and setWorkspaceForHandle in
// aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11, a handle for each thread, with neither
// CUBLAS_WORKSPACE_CONFIG nor CUBLASLT_WORKSPACE_SIZE set; addmm goes to cuBLASLt for its bias
// (aten/src/ATen/native/cuda/Blas.cpp).
DeviceMemory gpu_memory(int major, int minor);

// The blocks of a GPU's allocator, which a script names by the size that was asked for.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(std::optional<std::int64_t> limit_bytes = std::nullopt)
      : allocator_(limit_bytes) {}

  // Returns the bytes of the block that a tensor of `bytes` gets.
  std::int64_t take(std::int64_t bytes);
  // Returns those of the latest that was asked for with as many and is still held.
  std::int64_t give(std::int64_t bytes);
  std::int64_t latest(std::int64_t bytes) const;
  // Whether a tensor got no block, since that would have exceeded the limit.
  bool ran_out() const { return ran_out_; }
  std::int64_t peak_reserved_bytes() const { return allocator_.peak_reserved_bytes(); }

 private:
  struct Block {
    std::optional<std::uint64_t> name;  // unset: there was none
    std::int64_t bytes;
  };
  measure::CachingAllocatorModel allocator_;
  std::map<std::int64_t, std::vector<Block>> held_;  // by bytes asked for
  std::uint64_t next_name_ = 0;
  bool ran_out_ = false;
};

}  // namespace gradsync::memory
