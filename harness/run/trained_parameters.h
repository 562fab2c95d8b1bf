// What a block left in the parameters it trained.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <string>
#include <vector>

#include "harness/sync/wrapper.h"

namespace gradsync::run {

// Checks that the trained parameters are still finite. Gradients that are infinite or NaN take as
// long and as much memory as others, and would pass unnoticed.
//
// One check after a block is enough: an optimizer carries values that are not finite into its
// parameters, and there they stay. So the clock covers only a look at each loss, on the CPU.
//
// Returns what is wrong with this rank's parameters, in words; empty where all are finite.
// `first_loss`: number of the first backward of the block whose loss was not finite, if one is
// known; `warmup` and `windows`: micro-batches of each step before the clock and under it.
// Blocks: until the device has them. Allocates nothing but a number for each tensor.
std::string non_finite_values(const sync::Wrapper& model, std::optional<int> first_loss,
                              const std::vector<int>& warmup, const std::vector<int>& windows);

// Gives every rank rank 0's parameters. Collective.
void start_alike(const sync::Wrapper& model, c10d::ProcessGroup& group);

// Returns how far this replica has drifted from rank 0's: not at all where gradients are
// synchronized, and a little more with every step where they are not. |p - q| / |q|, where p are
// this rank's parameters as one vector, q those of rank 0, and
// |.| is the Euclidean norm, in double precision; so 0 on rank 0. `model` replicates.
// Collective. Cost: a broadcast of the parameters, one by one.
double parameter_distance(const sync::Wrapper& model, c10d::ProcessGroup& group);

}  // namespace gradsync::run
