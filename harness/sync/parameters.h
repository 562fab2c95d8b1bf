// Parameters that a rank holds whole: their names, and what a wrapper says of their memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/autograd_node.h"
#include "models/model.h"

namespace gradsync::sync {

// Returns "parameter NAME" of each that requires grad, in the order of registration.
std::vector<std::string> trained_parameter_names(const models::Model& model);

// Returns the bytes of the gradients of all parameters that require grad.
std::int64_t trained_bytes(const models::Model& model);

// Labels `parameters` as tensors that stay on this rank. From now on it also labels each gradient
// of theirs, once its accumulator has it: backward made the gradient like any other tensor. A
// gradient that is a view of a bucket counts as that bucket. Returns the accumulators, which must
// be kept: they hold the hooks. Does nothing if memory is not counted. Call it after all other
// hooks of the accumulators are made.
[[nodiscard]] std::vector<models::NodePtr> label_parameter_memory(
    const std::vector<at::Tensor>& parameters);

}  // namespace gradsync::sync
