#include "models/mixtral_shapes.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

namespace gradsync::models {
namespace {

std::vector<MixtralTensor> layer_shapes(const MixtralConfig& config, std::int64_t layer) {
  const std::string unit = fmt::format("model.layers.{}", layer);
  std::vector<MixtralTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tensors.push_back({unit, fmt::format("{}.{}.weight", unit, name), std::move(shape)});
  };
  const std::int64_t key_value = config.key_value_heads * config.head_size();
  add("self_attn.q_proj", {config.hidden, config.hidden});
  add("self_attn.k_proj", {key_value, config.hidden});
  add("self_attn.v_proj", {key_value, config.hidden});
  add("self_attn.o_proj", {config.hidden, config.hidden});
  add("block_sparse_moe.gate", {config.experts, config.hidden});
  for (std::int64_t i = 0; i < config.experts; ++i) {
    const std::string expert = fmt::format("block_sparse_moe.experts.{}.", i);
    add(expert + "w1", {config.intermediate, config.hidden});
    add(expert + "w2", {config.hidden, config.intermediate});
    add(expert + "w3", {config.intermediate, config.hidden});
  }
  add("input_layernorm", {config.hidden});
  add("post_attention_layernorm", {config.hidden});
  return tensors;
}

}  // namespace

std::int64_t MixtralTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<MixtralTensor> mixtral_shapes(const MixtralConfig& config) {
  std::vector<MixtralTensor> tensors{
      {"", "model.embed_tokens.weight", {config.vocabulary, config.hidden}}};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    for (MixtralTensor& tensor : layer_shapes(config, i)) tensors.push_back(std::move(tensor));
  }
  tensors.push_back({"", "model.norm.weight", {config.hidden}});
  tensors.push_back({"", "lm_head.weight", {config.vocabulary, config.hidden}});
  return tensors;
}

}  // namespace gradsync::models
