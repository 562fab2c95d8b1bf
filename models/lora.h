// Low-rank updates (LoRA, Hu et al. 2021): a linear layer whose own weight is frozen, and beside it
// two thin matrices that are trained,
//
//   y = W x + b + (alpha / rank) B A x        A [rank, in], B [out, rank]
//
// Values and their order are those of peft 0.21, LoraConfig(r=rank): alpha 8, no dropout, A as a
// linear layer begins (uniform in +- 1 / sqrt(in)), B zero, so that a model starts as without.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace gradsync::models {

inline constexpr double kLoraAlpha = 8;  // more: what is learned counts more beside W x

// Returns whether a parameter, named as in named_parameters(), is an A or a B.
bool is_lora_factor(const std::string& parameter);

class LowRankUpdate {
 public:
  // Registers "lora_A" and "lora_B" below `layer`, whose weight is [out, in], as peft does, and
  // draws A from `generator`.
  LowRankUpdate(torch::nn::Module& layer, at::IntArrayRef weight_shape, std::int64_t rank,
                at::Generator& generator);

  // Returns the layer's output for `input` with its update; `own`: the output without it.
  at::Tensor added_to(const at::Tensor& own, const at::Tensor& input) const;

 private:
  at::Tensor a_;
  at::Tensor b_;
  double scale_;
};

}  // namespace gradsync::models
