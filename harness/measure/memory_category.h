// What a tensor's memory is for: the categories in which memory is counted.
//
// One list for every wrapper. Under DDP, which keeps whole parameters, a rank's shard is the whole:
// ShardedParameter reads "the parameters that stay on this rank", and under DDP there is one shard.
// So the resident parameters of a DDP row and of an FSDP row are in the same column.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace gradsync::measure {

enum class MemoryCategory : std::uint8_t {
  ShardedParameter,   // parameters that stay: FSDP's shard; under DDP (one shard) all of them
  GatheredParameter,  // FSDP's temporary whole parameters of a unit
  UnshardedGradient,  // gradients of whole parameters: all of DDP's, FSDP's before they are reduced
  ShardedGradient,    // FSDP's reduced gradients
  OptimizerState,     // moments, and temporaries of the optimizer's step
  Activation,         // whatever else forward and backward allocate
  Communication,      // DDP's buckets, copies made for a collective
  Other               // no scope was open: data, set-up, threads of libraries
};

constexpr std::array<const char*, 8> kMemoryCategoryNames{
    "sharded_parameter", "gathered_parameter", "unsharded_gradient", "sharded_gradient",
    "optimizer_state",   "activation",         "communication",      "other"};

// Bytes per category, in the order of the enumeration.
using CategoryBytes = std::array<std::int64_t, kMemoryCategoryNames.size()>;

inline std::int64_t& bytes_of(CategoryBytes& bytes, MemoryCategory category) {
  return bytes[static_cast<std::size_t>(category)];
}
inline std::int64_t bytes_of(const CategoryBytes& bytes, MemoryCategory category) {
  return bytes[static_cast<std::size_t>(category)];
}
inline std::int64_t total_bytes(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace gradsync::measure
