// Reads Hugging Face's checkpoints, one safetensors file or several, into a model's parameters.
//
// Layout of a file: 8 bytes little-endian header length N, N bytes of JSON {"name": {"dtype",
// "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}, then the data that the offsets
// index. Source: the safetensors format specification.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace gradsync::models {

// What a checkpoint did not decide, as from_pretrained would report it.
struct LoadReport {
  std::vector<std::string> initialised;  // parameters the file lacks: a task's own head, the pooler
  std::vector<std::string> unused;  // tensors the model lacks: another task's heads, old buffers
};

// Copies every tensor of the checkpoint at `path` (a file, an index or a folder: see Checkpoint)
// into the parameter of its name; F32, F16 and BF16 are converted to the parameter's type. What
// real checkpoints have is accepted: the older names gamma and beta, no "bert." prefix, no
// classifier or pooler, no low-rank updates, additional cls.* heads and stored position ids.
// Errors: ConfigError with file, tensor, got, expected for a truncated or malformed file,
// overlapping or outlying offsets, files that disagree with their index, a wrong shape, another
// type, a missing or an unexpected tensor, or one that is there twice under two names. The model is
// then partly loaded.
LoadReport load_safetensors(const std::string& path, torch::nn::Module& model);

}  // namespace gradsync::models
