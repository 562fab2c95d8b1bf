// Which parameters a Mixtral has, without making one: 46.7 G parameters described in 995 lines.
//
// Source: Jiang et al. 2024 (arXiv:2401.04088); names and shapes as in the published checkpoints of
// Mixtral-8x7B.   No torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradsync::models {

// Defaults: Mixtral-8x7B-v0.1.
struct MixtralConfig {
  std::int64_t layers = 32;
  std::int64_t hidden = 4096;
  std::int64_t heads = 32;
  std::int64_t key_value_heads = 8;  // each serves heads / key_value_heads heads
  std::int64_t intermediate = 14336;
  std::int64_t experts = 8;
  std::int64_t experts_per_token = 2;
  std::int64_t vocabulary = 32000;
  double rms_norm_eps = 1e-5;
  double rope_theta = 1e6;  // larger turns the slowest pairs of a head less per position
  double initializer_range = 0.02;

  std::int64_t head_size() const { return hidden / heads; }
};

struct MixtralTensor {
  std::string unit;  // the decoder layer it belongs to, "model.layers.0"; empty: none
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements() const;
};

// Returns every parameter, in the order of named_parameters().
std::vector<MixtralTensor> mixtral_shapes(const MixtralConfig& config);

}  // namespace gradsync::models
