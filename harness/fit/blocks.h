// What a process's tensors held on its GPU over time: each block from when torch's allocator gave
// it until it was let go, and what it was for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/fit/read_allocations.h"

namespace gradsync::fit {

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;     // as asked for
  std::size_t allocated = 0;  // numbers of records
  std::size_t freed = 0;      // one past the last record: never
  std::uint32_t site = 0;
  std::optional<Holds> holds;  // where an optimizer or its parameters told
};

// Returns the blocks of a device, in the order in which they were allocated.
std::vector<Block> blocks_of(const Allocations& allocations, int device);

// The record at which a figure was largest.
struct Highest {
  std::int64_t bytes = 0;
  std::size_t record = 0;
};

// Returns when tensors held most on that device, and when the allocator had taken most from it.
// Both by torch's own statistics, which count what the allocator rounds up.
Highest highest_allocated(const Allocations& allocations, int device);
Highest highest_reserved(const Allocations& allocations, int device);

// Returns whether the job let go of blocks that other streams may have been using: the allocator
// has them back when the GPU is done with them, and not at once.
bool waits_for_streams(const Allocations& allocations, int device);

// Returns whether a convolution took a workspace.
bool has_workspaces(const Allocations& allocations, int device);

// Returns the device on which the process held most; 0 where it held nothing.
int main_device(const Allocations& allocations);

}  // namespace gradsync::fit
