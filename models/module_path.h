// Tensors by dotted names, "a.b.weight": module `a` holds `b`, which holds the tensor `weight`.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace gradsync::models {

struct ModulePath {
  torch::nn::Module& owner;
  std::string name;  // without dots, as registration wants it
};

// Returns where `dotted` belongs below `root`; modules on the way that are missing are made.
ModulePath module_path(torch::nn::Module& root, const std::string& dotted);

// Returns the names of root's parameters that begin with `prefix`, in root's order.
std::vector<std::string> parameters_below(const torch::nn::Module& root, const std::string& prefix);

}  // namespace gradsync::models
