// Reads Hugging Face's safetensors files into a model's parameters.
//
// Layout: 8 bytes little-endian header length N, N bytes of JSON {"name": {"dtype", "shape",
// "data_offsets": [begin, end]}, "__metadata__": {...}}, then the data that the offsets index.
// Source: the safetensors format specification.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace gradsync::models {

// What a checkpoint did not decide, as from_pretrained would report it.
struct LoadReport {
  std::vector<std::string> initialised;  // parameters the file lacks: a task's own head
  std::vector<std::string> unused;       // tensors the model lacks: another task's heads
};

// Copies every tensor of `path` into the parameter of its name; F32, F16 and BF16 are converted to the
// parameter's type. The older names gamma and beta, a missing or additional "bert." prefix, a missing
// classifier and additional cls.* heads are what real checkpoints have, and are accepted.
// Errors: ConfigError with file, tensor, got, expected for a truncated or malformed file, overlapping
// or outlying offsets, a wrong shape, an unknown type, or a missing tensor of the model's body.
LoadReport load_safetensors(const std::string& path, torch::nn::Module& model);

}  // namespace gradsync::models
