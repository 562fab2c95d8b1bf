// Ranges and nodes as torch itself names them. Compiled into the job as well: it needs nothing of
// the rest.
#pragma once

#include <string_view>
#include <utility>

namespace gradsync::watch {

// The node that adds to a gradient.
inline constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

// "Optimizer.step#AdamW.step"
inline constexpr std::string_view kOptimizer = "Optimizer.step#";

// Ranges around the forward of a wrapped model, and what we call the wrapper.
inline constexpr std::pair<std::string_view, std::string_view> kForwards[] = {
    {"DistributedDataParallel.forward", "DistributedDataParallel"},
    {"FullyShardedDataParallel.forward", "FullyShardedDataParallel"},
    {"FSDP::root_pre_forward", "fully_shard"},  // it ends before the forward itself
};

// Returns the wrapper whose forward a range of this name is; "" where it is none's.
inline std::string_view wrapper_of_range(std::string_view name) {
  for (const auto& [range, wrapper] : kForwards) {
    if (name == range) return wrapper;
  }
  return "";
}

}  // namespace gradsync::watch
