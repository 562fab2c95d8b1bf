// Is what was trained still numbers? Gradients that are infinite or NaN take as long and as much
// memory as others, and would pass unnoticed.
//
// Looked at once, after a block: an optimizer carries what was not finite into its parameters, and
// there it stays. So nothing of this is inside the clock but a look at each loss, on the CPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/sync/wrapper.h"

namespace gradsync::run {

// Returns what is wrong with this rank's parameters, in words; empty where all are finite.
// `first_loss`: number of the first backward of the block whose loss was not finite, if one is
// known; `warmup` and `windows`: micro-batches of each step before the clock and under it.
// Blocks: until the device has them. Allocates nothing but a number for each tensor.
std::string non_finite_values(const sync::Wrapper& model, std::optional<int> first_loss,
                              const std::vector<int>& warmup, const std::vector<int>& windows);

}  // namespace gradsync::run
