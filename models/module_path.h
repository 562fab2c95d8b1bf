// Tensors by dotted names, "a.b.weight": module `a` holds `b`, which holds the tensor `weight`.
#pragma once

#include <torch/nn/module.h>

#include <string>

namespace gradsync::models {

struct ModulePath {
  torch::nn::Module& owner;
  std::string name;  // without dots, as registration wants it
};

// Returns where `dotted` belongs below `root`; modules on the way that are missing are made.
ModulePath module_path(torch::nn::Module& root, const std::string& dotted);

}  // namespace gradsync::models
