#include "models/lora.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>

namespace gradsync::models {
namespace {

// Named "weight" in a module of its own, as peft's are.
class Factor : public torch::nn::Module {
 public:
  explicit Factor(at::Tensor values) : weight(register_parameter("weight", std::move(values))) {}
  at::Tensor weight;
};

at::Tensor register_factor(torch::nn::Module& layer, const char* name, at::Tensor values) {
  return layer.register_module(name, std::make_shared<Factor>(std::move(values)))->weight;
}

}  // namespace

bool is_lora_factor(const std::string& parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

LowRankUpdate::LowRankUpdate(torch::nn::Module& layer, at::IntArrayRef weight_shape,
                             std::int64_t rank, at::Generator& generator)
    : scale_(kLoraAlpha / static_cast<double>(rank)) {
  const std::int64_t out = weight_shape[0];
  const std::int64_t in = weight_shape[1];
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  a_ = register_factor(layer, "lora_A", at::empty({rank, in}).uniform_(-bound, bound, generator));
  b_ = register_factor(layer, "lora_B", at::zeros({out, rank}));
}

at::Tensor LowRankUpdate::added_to(const at::Tensor& own, const at::Tensor& input) const {
  const at::Tensor update = at::linear(at::linear(input, a_), b_) * scale_;
  return own + update;
}

}  // namespace gradsync::models
