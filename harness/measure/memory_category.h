// The categories in which memory is counted: the purpose of a tensor.
//
// One list for every wrapper. Under DDP, which keeps whole parameters, a rank's shard is the whole:
// ShardedParameter reads "the parameters that stay on this rank", and under DDP there is one shard.
// So the resident parameters of a DDP row and of an FSDP row are in the same column.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>

namespace gradsync::measure {

// The one list: a category as the program and as results call it. In this order they are counted,
// predicted, written and recorded; the pictures draw what they have no colour for in gray.
#define GRADSYNC_MEMORY_CATEGORIES(CATEGORY)                                        \
  /* parameters that stay: FSDP's shard; under DDP (one shard) all of them */       \
  CATEGORY(ShardedParameter, "sharded_parameter")                                   \
  /* FSDP's temporary whole parameters of a unit */                                 \
  CATEGORY(GatheredParameter, "gathered_parameter")                                 \
  /* gradients of whole parameters: all of DDP's, FSDP's before they are reduced */ \
  CATEGORY(UnshardedGradient, "unsharded_gradient")                                 \
  /* FSDP's reduced gradients */                                                    \
  CATEGORY(ShardedGradient, "sharded_gradient")                                     \
  /* moments, and temporaries of the optimizer's step */                            \
  CATEGORY(OptimizerState, "optimizer_state")                                       \
  /* whatever else forward and backward allocate */                                 \
  CATEGORY(Activation, "activation")                                                \
  /* DDP's buckets, copies made for a collective */                                 \
  CATEGORY(Communication, "communication")                                          \
  /* no scope was open: data, set-up, threads of libraries */                       \
  CATEGORY(Other, "other")

#define GRADSYNC_ENUMERATOR(category, name) category,
#define GRADSYNC_NAME(category, name) name,
enum class MemoryCategory : std::uint8_t { GRADSYNC_MEMORY_CATEGORIES(GRADSYNC_ENUMERATOR) };
constexpr std::array kMemoryCategoryNames{GRADSYNC_MEMORY_CATEGORIES(GRADSYNC_NAME)};
#undef GRADSYNC_ENUMERATOR
#undef GRADSYNC_NAME

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
// Returns {"activation": 1024, ...}
inline std::map<std::string, std::int64_t> by_name(const CategoryBytes& bytes) {
  std::map<std::string, std::int64_t> named;
  for (std::size_t i = 0; i < bytes.size(); ++i) named[kMemoryCategoryNames[i]] = bytes[i];
  return named;
}

}  // namespace gradsync::measure
