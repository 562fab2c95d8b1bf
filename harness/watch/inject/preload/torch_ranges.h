// Ranges and nodes as torch itself names them. Compiled into the job as well: it needs nothing of
// the rest.
#pragma once

#include <string_view>

namespace gradsync::watch {

// The node that adds to a gradient.
inline constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

// "Optimizer.step#AdamW.step"
inline constexpr std::string_view kOptimizer = "Optimizer.step#";

}  // namespace gradsync::watch
