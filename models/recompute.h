// Activation checkpointing: a stretch of forward that keeps nothing for backward but its input, and
// runs again when backward comes to it.
//
//   without   forward   x -> a -> b -> y          a and b are kept
//             backward             y', b, a
//   with      forward   x -> a -> b -> y          x is kept, and a place for a and for b
//             backward  x -> a -> b, then y', b, a
//
// As torch.utils.checkpoint(use_reentrant=False), torch 2.11: forward builds its graph as ever, but
// drops at once what an operation saves for its backward. When backward asks for the first such
// tensor, the stretch runs again, from the input, the state of the random numbers and the autocast
// that it had, until the last of these tensors exists again. Each is handed out once and then
// freed. So the graph, the order in which gradients are complete and their every bit are the same
// as without.
//
// Selective checkpointing keeps the outputs of some operations (models/selective.h): x -> a is not
// computed again where a is one.
//
// A stretch that has an effect beside its output has it twice: batch normalization's running
// statistics would move twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "models/unit_levers.h"

namespace gradsync::models {

struct CheckpointedStretch {
  // Kept, and called again in backward: it owns what it uses, and returns the same each time.
  std::function<at::Tensor(const at::Tensor&)> forward;
  // Called when it begins to run again (true) and when that has ended (false); may be empty.
  std::function<void(bool begins)> on_rerun;
  KeptOutputs kept = KeptOutputs::None;
};

// Returns stretch.forward(input). Local; without gradients it is only called.
// Errors in backward: ConfigError if the second run makes other tensors than the first.
at::Tensor run_checkpointed(const at::Tensor& input, CheckpointedStretch stretch);

}  // namespace gradsync::models
