#include "models/mixtral.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "harness/base/errors.h"
#include "models/module_path.h"
#include "models/selective.h"

namespace gradsync::models {

using at::Tensor;

namespace {

constexpr std::int64_t kIgnored = -100;  // the label that cross entropy leaves out

struct Attention {
  Tensor query, key, value, output;
};

// down(silu(gate(x)) * up(x)), under the checkpoints' names.
struct Expert {
  Tensor w1;  // gate [intermediate, hidden]
  Tensor w2;  // down [hidden, intermediate]
  Tensor w3;  // up [intermediate, hidden]
};

}  // namespace

struct MixtralForCausalLM::Layer {
  Tensor input_norm;
  Attention attention;
  Tensor post_attention_norm;
  Tensor router;
  std::vector<Expert> experts;
};

namespace {

using Named = std::map<std::string, Tensor>;

MixtralForCausalLM::Layer layer_of(const Named& named, const std::string& unit,
                                   std::int64_t experts) {
  const auto weight = [&](const std::string& name) {
    return named.at(fmt::format("{}.{}.weight", unit, name));
  };
  MixtralForCausalLM::Layer layer;
  layer.input_norm = weight("input_layernorm");
  layer.attention = {weight("self_attn.q_proj"), weight("self_attn.k_proj"),
                     weight("self_attn.v_proj"), weight("self_attn.o_proj")};
  layer.post_attention_norm = weight("post_attention_layernorm");
  layer.router = weight("block_sparse_moe.gate");
  for (std::int64_t i = 0; i < experts; ++i) {
    const std::string expert = fmt::format("block_sparse_moe.experts.{}.", i);
    layer.experts.push_back({weight(expert + "w1"), weight(expert + "w2"), weight(expert + "w3")});
  }
  return layer;
}

// In float32 whatever the parameters' type, as are the norms, the router and the loss.
Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
  const Tensor x = input.to(at::kFloat);
  const Tensor variance = x.pow(2).mean(-1, /*keepdim=*/true);
  const Tensor normed = x * at::rsqrt(variance + eps);
  return weight * normed.to(input.scalar_type());
}

// Turns each pair (i, i + head size / 2) of x [..., length, head size] by its position's angle.
Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const std::vector<Tensor> halves = x.chunk(2, -1);
  const Tensor rotated = at::cat({-halves[1], halves[0]}, -1);
  return x * cosine + rotated * sine;
}

// Returns what each token may attend to, [batch, 1, length, length]: itself and those before it but
// padding. Undefined where nothing is padded: attention then knows by itself.
Tensor causal_mask(const Tensor& attention_mask) {
  if (!attention_mask.defined()) return {};
  const std::int64_t length = attention_mask.size(1);
  const Tensor causal =
      at::ones({length, length}, attention_mask.options().dtype(at::kBool)).tril();
  return attention_mask.ne(0).unsqueeze(1).unsqueeze(2).logical_and(causal);
}

// Shapes: q [batch, heads, length, head size], k and v with key_value_heads instead.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const AttentionScope scope;
  if (!mask.defined()) {
    return at::scaled_dot_product_attention(q, k, v, std::nullopt, /*dropout_p=*/0.0,
                                            /*is_causal=*/true, std::nullopt, /*enable_gqa=*/true);
  }
  // With a mask, no fused kernel but the CPU's knows groups of heads.
  const std::int64_t group = q.size(1) / k.size(1);
  const Tensor keys = k.repeat_interleave(group, 1);
  const Tensor values = v.repeat_interleave(group, 1);
  return at::scaled_dot_product_attention(q, keys, values, mask);
}

// Shapes: x [batch, length, hidden].
Tensor attention(const Attention& weights, const Tensor& x,
                 const MixtralForCausalLM::Surroundings& around) {
  const std::int64_t head_size = around.cosine.size(-1);
  const auto split = [&](const Tensor& y) {  // [batch, heads, length, head size]
    return y.view({y.size(0), y.size(1), -1, head_size}).transpose(1, 2);
  };
  // One after the other, as transformers: autograd runs in reverse, so this decides in which order
  // gradients are ready.
  const Tensor q = split(at::linear(x, weights.query));
  const Tensor k = split(at::linear(x, weights.key));
  const Tensor v = split(at::linear(x, weights.value));
  const Tensor turned_q = rotate(q, around.cosine, around.sine);
  const Tensor turned_k = rotate(k, around.cosine, around.sine);
  const Tensor context = attend(turned_q, turned_k, v, around.mask);
  const Tensor joined = context.transpose(1, 2).reshape({x.size(0), x.size(1), -1});
  return at::linear(joined, weights.output);
}

Tensor run_expert(const Expert& expert, const Tensor& x) {
  const Tensor gate = at::linear(x, expert.w1);
  const Tensor up = at::linear(x, expert.w3);
  return at::linear(at::silu(gate) * up, expert.w2);
}

// Returns which choices are expert `expert`'s, in their order.
Tensor choices_of(std::int64_t expert, std::int64_t experts, const Routing& routing) {
  const Tensor& chosen = routing.experts;
  // Their number is known: no need to wait for a device to count them.
  if (routing.in_turn) {
    return at::arange(std::min(expert, chosen.numel()), chosen.numel(), experts, chosen.options());
  }
  return chosen.flatten().eq(expert).nonzero().squeeze(1);
}

// Each token's experts, weighted. Every expert runs, also without a token, so that each has a
// gradient (then zero), as transformers' fused experts have: DDP waits for all of them.
// Shapes: x [tokens, hidden].
Tensor mixture(const std::vector<Expert>& experts, const Tensor& x, const Routing& routing) {
  const std::int64_t per_token = routing.experts.size(1);  // choice c is token c / per_token's
  const auto count = static_cast<std::int64_t>(experts.size());
  const Tensor weights = routing.weights.flatten();
  Tensor sum = at::zeros_like(x);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor choices = choices_of(i, count, routing);
    const Tensor tokens = choices.floor_divide(per_token);
    const Tensor output =
        run_expert(experts[static_cast<std::size_t>(i)], x.index_select(0, tokens));
    const Tensor weighted = output * weights.index_select(0, choices).unsqueeze(1);
    sum.index_add_(0, tokens, weighted.to(sum.scalar_type()));
  }
  return sum;
}

// As transformers: normal weights, norms at one.
void initialise(const std::vector<MixtralTensor>& tensors, Named& named, double range,
                std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const MixtralTensor& tensor : tensors) {
    if (tensor.shape.size() == 1) {
      named.at(tensor.name).fill_(1);
    } else {
      named.at(tensor.name).normal_(0, range, generator);
    }
  }
}

Tensor empty_parameter(const std::vector<std::int64_t>& shape, const at::TensorOptions& how,
                       bool without_memory) {
  if (!without_memory) return at::empty(shape, how);
  Tensor parameter = at::empty({0}, how);
  parameter.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return parameter;
}

}  // namespace

Routing route(const Tensor& logits, const MixtralConfig& config, bool balanced) {
  const Tensor probabilities = at::softmax(logits, -1, at::kFloat);
  Routing routing;
  routing.in_turn = balanced;
  if (balanced) {
    const std::int64_t choices = logits.size(0) * config.experts_per_token;
    routing.experts = at::arange(choices, logits.options().dtype(at::kLong))
                          .remainder(config.experts)
                          .view({logits.size(0), config.experts_per_token});
    routing.weights = probabilities.gather(1, routing.experts);
  } else {
    std::tie(routing.weights, routing.experts) =
        at::topk(probabilities, config.experts_per_token, -1);
  }
  routing.weights = routing.weights / routing.weights.sum(-1, /*keepdim=*/true);
  return routing;
}

MixtralForCausalLM::MixtralForCausalLM(const MixtralConfig& config, const ModelOptions& options)
    : config_(config), balanced_routing_(options.balanced_routing) {
  register_parameters(options);
  register_rotary_buffers(options.device);
  to(options.device);
}

MixtralForCausalLM::~MixtralForCausalLM() = default;

void MixtralForCausalLM::register_parameters(const ModelOptions& options) {
  // Random values come from the CPU's generator, wherever the model then goes.
  const bool initialised = !options.uninitialised && !options.without_memory;
  const at::Device device = initialised ? at::kCPU : options.device;
  const at::TensorOptions how = at::TensorOptions().dtype(options.dtype).device(device);
  const std::vector<MixtralTensor> tensors = mixtral_shapes(config_);
  Named named;
  for (const MixtralTensor& tensor : tensors) {
    const auto [owner, name] = module_path(*this, tensor.name);
    named[tensor.name] =
        owner.register_parameter(name, empty_parameter(tensor.shape, how, options.without_memory));
  }
  if (initialised) {
    initialise(tensors, named, config_.initializer_range, options.seed);
  }
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    layers_.push_back(layer_of(named, fmt::format("model.layers.{}", i), config_.experts));
  }
  embedding_ = named.at("model.embed_tokens.weight");
  norm_ = named.at("model.norm.weight");
  head_ = named.at("lm_head.weight");
}

// Float32 whatever the parameters' type. transformers has both: DDP broadcasts them.
void MixtralForCausalLM::register_rotary_buffers(at::Device device) {
  const std::int64_t size = config_.head_size();
  const Tensor exponents = at::arange(0, size, 2, at::kFloat) / static_cast<double>(size);
  const Tensor frequencies = at::pow(config_.rope_theta, exponents).reciprocal().to(device);
  const auto [owner, name] = module_path(*this, "model.rotary_emb.inv_freq");
  frequencies_ = owner.register_buffer(name, frequencies);
  owner.register_buffer("original_inv_freq", frequencies.clone());
}

MixtralForCausalLM::Surroundings MixtralForCausalLM::surroundings_of(const Batch& batch) const {
  const Tensor positions = at::arange(batch.input_ids.size(1), frequencies_.options());
  const Tensor half = at::outer(positions, frequencies_);
  const Tensor angles = at::cat({half, half}, -1);
  const at::ScalarType type = embedding_.scalar_type();
  return {causal_mask(batch.attention_mask), angles.cos().to(type), angles.sin().to(type)};
}

Tensor MixtralForCausalLM::run_layer(const Layer& layer, const Tensor& hidden,
                                     const Surroundings& surroundings) const {
  const Tensor normed = rms_norm(hidden, layer.input_norm, config_.rms_norm_eps);
  const Tensor attended = hidden + attention(layer.attention, normed, surroundings);
  const Tensor tokens = rms_norm(attended, layer.post_attention_norm, config_.rms_norm_eps)
                            .view({-1, config_.hidden});
  const Tensor router_logits = at::linear(tokens, layer.router);
  const Routing routing = route(router_logits, config_, balanced_routing_);
  return attended + mixture(layer.experts, tokens, routing).view(attended.sizes());
}

Tensor MixtralForCausalLM::logits(const Batch& batch) {
  const Surroundings surroundings = surroundings_of(batch);
  Tensor hidden = at::embedding(embedding_, batch.input_ids);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    hidden = run_unit(i, hidden, [this, i, surroundings](const Tensor& input) {
      return run_layer(layers_[i], input, surroundings);
    });
  }
  return at::linear(rms_norm(hidden, norm_, config_.rms_norm_eps), head_);
}

Tensor MixtralForCausalLM::loss(const Batch& batch) {
  if (batch.input_ids.size(1) < 2) {
    throw ConfigError(fmt::format(
        "sequence_length: got {} token, expected at least 2: the next one is what is predicted",
        batch.input_ids.size(1)));
  }
  Tensor labels = batch.input_ids;
  if (batch.attention_mask.defined()) {
    labels = labels.masked_fill(batch.attention_mask.eq(0), kIgnored);
  }
  // Position i predicts token i + 1; the last predicts nothing.
  const Tensor next = at::constant_pad_nd(labels.slice(1, 1), {0, 1}, kIgnored);
  const Tensor predictions = logits(batch).to(at::kFloat).view({-1, config_.vocabulary});
  return at::cross_entropy_loss(predictions, next.flatten(), {}, at::Reduction::Mean, kIgnored);
}

std::string MixtralForCausalLM::reads_back() const {
  return balanced_routing_ ? "" : "how many tokens the router gave each expert";
}

std::vector<Unit> MixtralForCausalLM::units() const {
  std::vector<Unit> result;
  for (const MixtralTensor& tensor : mixtral_shapes(config_)) {
    if (tensor.unit.empty()) continue;
    if (result.empty() || result.back().name != tensor.unit) result.push_back({tensor.unit, {}});
    result.back().parameters.push_back(tensor.name);
  }
  return result;
}

}  // namespace gradsync::models
