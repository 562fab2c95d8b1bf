#include "models/bert.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "models/lora.h"
#include "models/module_path.h"
#include "models/selective.h"

namespace gradsync::models {

using at::Tensor;

// Its embedding is no parameter: zero, without gradient.
constexpr std::int64_t kPaddingToken = 0;

// A linear layer: weight [out, in], bias [out].
class BertForSequenceClassification::Dense : public torch::nn::Module {
 public:
  Dense(std::int64_t in, std::int64_t out)
      : weight_(register_parameter("weight", at::empty({out, in}))),
        bias_(register_parameter("bias", at::empty({out}))) {}
  Tensor operator()(const Tensor& input) const {
    const Tensor own = at::linear(input, weight_, bias_);
    return update_ ? update_->added_to(own, input) : own;
  }
  void add_update(std::int64_t rank, at::Generator& generator) {
    update_.emplace(*this, weight_.sizes(), rank, generator);
  }

 private:
  Tensor weight_;
  Tensor bias_;
  std::optional<LowRankUpdate> update_;
};

namespace {

class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(const BertConfig& config)
      : weight_(register_parameter("weight", at::empty({config.hidden}))),
        bias_(register_parameter("bias", at::empty({config.hidden}))),
        eps_(config.layer_norm_eps) {}
  Tensor operator()(const Tensor& input) const {
    return at::layer_norm(input, {input.size(-1)}, weight_, bias_, eps_);
  }

 private:
  Tensor weight_;
  Tensor bias_;
  double eps_;
};

// The row `padding`, if any, is zero and gets no gradient.
class Embedding : public torch::nn::Module {
 public:
  Embedding(std::int64_t rows, std::int64_t hidden, std::int64_t padding = -1)
      : weight_(register_parameter("weight", at::empty({rows, hidden}))), padding_(padding) {}
  Tensor operator()(const Tensor& ids) const { return at::embedding(weight_, ids, padding_); }

 private:
  Tensor weight_;
  std::int64_t padding_;
};

// softmax(q k^T / sqrt(head size) + mask) with dropout, times v. With dropout the products are
// spelled out by default: no fused CPU kernel knows dropout, and what scaled_dot_product_attention
// then falls back to takes longer, since it also scales k and looks for rows of the softmax that
// are masked as a whole.   Shapes: q, k, v [batch, heads, length, head size]; mask, added to the
// scores, [batch, 1, 1, length] or undefined.
Tensor attend(AttentionImplementation attention, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& mask, double dropout) {
  const AttentionScope scope;
  if (attention == AttentionImplementation::Sdpa || dropout == 0) {
    std::optional<Tensor> attention_mask;
    if (mask.defined()) attention_mask = mask;
    return at::scaled_dot_product_attention(q, k, v, attention_mask, dropout);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  Tensor scores = at::matmul(q * scale, k.transpose(-2, -1));
  if (mask.defined()) scores = keeps_products() ? scores + mask : scores.add_(mask);
  return at::matmul(at::dropout(at::softmax(scores, -1), dropout, /*train=*/true), v);
}

}  // namespace

class BertForSequenceClassification::Bert : public torch::nn::Module {
 public:
  explicit Bert(const BertConfig& config)
      : embeddings_(register_module("embeddings", std::make_shared<Embeddings>(config))),
        encoder_(register_module("encoder", std::make_shared<Encoder>(config))),
        pooler_(register_module("pooler", std::make_shared<Pooler>(config))) {}

  // Returns [micro_batch, sequence_length, hidden]. `model` owns this and runs its units.
  Tensor encode(const Batch& batch, BertForSequenceClassification& model) {
    Tensor mask;  // undefined: nothing is padded, and attention needs no mask
    if (batch.attention_mask.defined()) {
      const Tensor padding = (batch.attention_mask == 0).unsqueeze(1).unsqueeze(2);
      mask = at::zeros(padding.sizes(), padding.options().dtype(at::kFloat))
                 .masked_fill_(padding, -std::numeric_limits<float>::infinity());
    }
    return (*encoder_)(model.run_begin([&] { return (*embeddings_)(batch.input_ids); }), mask,
                       model);
  }

  void add_updates(const LoraUpdates& updates, at::Generator& generator) {
    const auto add = [&](LoraModules which, const std::shared_ptr<Dense>& dense) {
      const std::int64_t rank = updates.rank_beside(which);
      if (rank > 0) dense->add_update(rank, generator);
    };
    for (const auto& layer : encoder_->layers->list) {
      add(LoraModules::QueryValue, layer->attention->self->query);
      add(LoraModules::Attention, layer->attention->self->key);
      add(LoraModules::QueryValue, layer->attention->self->value);
      add(LoraModules::Attention, layer->attention->output->dense);
      add(LoraModules::AllLinear, layer->intermediate->dense);
      add(LoraModules::AllLinear, layer->output->dense);
    }
    add(LoraModules::AllLinear, pooler_->dense);
  }

  // Returns the first token, pooled: [micro_batch, hidden].
  Tensor pool(const Tensor& encoded) { return (*pooler_)(encoded); }

 private:
  struct Embeddings : torch::nn::Module {
    explicit Embeddings(const BertConfig& config) : dropout(config.dropout) {
      word = register_module(
          "word_embeddings",
          std::make_shared<Embedding>(config.vocabulary, config.hidden, kPaddingToken));
      position = register_module("position_embeddings",
                                 std::make_shared<Embedding>(config.positions, config.hidden));
      token_type = register_module("token_type_embeddings",
                                   std::make_shared<Embedding>(config.token_types, config.hidden));
      norm = register_module("LayerNorm", std::make_shared<LayerNorm>(config));
      // Buffers, not parameters: DDP broadcasts them.
      position_ids =
          register_buffer("position_ids", at::arange(config.positions, at::kLong).unsqueeze(0));
      token_type_ids =
          register_buffer("token_type_ids", at::zeros({1, config.positions}, at::kLong));
    }
    Tensor operator()(const Tensor& ids) {
      const std::int64_t length = ids.size(1);
      // One after the other, as transformers: autograd runs in reverse, so this decides in which
      // order gradients are ready, and with it the buckets. Operands of + have no such order.
      const Tensor words = (*word)(ids);
      const Tensor types = (*token_type)(token_type_ids.narrow(1, 0, length));
      const Tensor typed_words = words + types;
      const Tensor positions = (*position)(position_ids.narrow(1, 0, length));
      return at::dropout((*norm)(typed_words + positions), dropout, is_training());
    }
    std::shared_ptr<Embedding> word, position, token_type;
    std::shared_ptr<LayerNorm> norm;
    Tensor position_ids, token_type_ids;
    double dropout;
  };

  // dense, dropout, residual, LayerNorm: what ends attention and feed-forward alike.
  struct Output : torch::nn::Module {
    Output(std::int64_t in, const BertConfig& config) : dropout(config.dropout) {
      dense = register_module("dense", std::make_shared<Dense>(in, config.hidden));
      norm = register_module("LayerNorm", std::make_shared<LayerNorm>(config));
    }
    Tensor operator()(const Tensor& input, const Tensor& residual) {
      return (*norm)(at::dropout((*dense)(input), dropout, is_training()) + residual);
    }
    std::shared_ptr<Dense> dense;
    std::shared_ptr<LayerNorm> norm;
    double dropout;
  };

  struct SelfAttention : torch::nn::Module {
    explicit SelfAttention(const BertConfig& config)
        : heads(config.heads), attention(config.attention), dropout(config.dropout) {
      query = register_module("query", std::make_shared<Dense>(config.hidden, config.hidden));
      key = register_module("key", std::make_shared<Dense>(config.hidden, config.hidden));
      value = register_module("value", std::make_shared<Dense>(config.hidden, config.hidden));
    }
    Tensor operator()(const Tensor& x, const Tensor& mask) {
      const auto split = [&](const Tensor& y) {  // [batch, heads, length, head size]
        return y.view({y.size(0), y.size(1), heads, -1}).transpose(1, 2);
      };
      const Tensor q = split((*query)(x));  // in this order, as in the embeddings
      const Tensor k = split((*key)(x));
      const Tensor v = split((*value)(x));
      const Tensor context = attend(attention, q, k, v, mask, is_training() ? dropout : 0.0);
      return context.transpose(1, 2).reshape({x.size(0), x.size(1), -1});
    }
    std::shared_ptr<Dense> query, key, value;
    std::int64_t heads;
    AttentionImplementation attention;
    double dropout;
  };

  struct Attention : torch::nn::Module {
    explicit Attention(const BertConfig& config) {
      self = register_module("self", std::make_shared<SelfAttention>(config));
      output = register_module("output", std::make_shared<Output>(config.hidden, config));
    }
    Tensor operator()(const Tensor& x, const Tensor& mask) {
      return (*output)((*self)(x, mask), x);
    }
    std::shared_ptr<SelfAttention> self;
    std::shared_ptr<Output> output;
  };

  struct Intermediate : torch::nn::Module {
    explicit Intermediate(const BertConfig& config) {
      dense = register_module("dense", std::make_shared<Dense>(config.hidden, config.intermediate));
    }
    Tensor operator()(const Tensor& x) { return at::gelu((*dense)(x)); }
    std::shared_ptr<Dense> dense;
  };

  struct Layer : torch::nn::Module {
    explicit Layer(const BertConfig& config) {
      attention = register_module("attention", std::make_shared<Attention>(config));
      intermediate = register_module("intermediate", std::make_shared<Intermediate>(config));
      output = register_module("output", std::make_shared<Output>(config.intermediate, config));
    }
    Tensor operator()(const Tensor& x, const Tensor& mask) {
      const Tensor attended = (*attention)(x, mask);
      return (*output)((*intermediate)(attended), attended);
    }
    std::shared_ptr<Attention> attention;
    std::shared_ptr<Intermediate> intermediate;
    std::shared_ptr<Output> output;
  };

  // Named "layer.0", "layer.1", ... as a list of modules is.
  struct Layers : torch::nn::Module {
    explicit Layers(const BertConfig& config) {
      for (std::int64_t i = 0; i < config.layers; ++i) {
        list.push_back(register_module(std::to_string(i), std::make_shared<Layer>(config)));
      }
    }
    std::vector<std::shared_ptr<Layer>> list;
  };

  struct Encoder : torch::nn::Module {
    explicit Encoder(const BertConfig& config) {
      layers = register_module("layer", std::make_shared<Layers>(config));
    }
    Tensor operator()(Tensor x, const Tensor& mask, BertForSequenceClassification& model) {
      for (std::size_t i = 0; i < layers->list.size(); ++i) {
        x = model.run_unit(
            i, x, [layer = layers->list[i], mask](const Tensor& y) { return (*layer)(y, mask); });
      }
      return x;
    }
    std::shared_ptr<Layers> layers;
  };

  struct Pooler : torch::nn::Module {
    explicit Pooler(const BertConfig& config) {
      dense = register_module("dense", std::make_shared<Dense>(config.hidden, config.hidden));
    }
    Tensor operator()(const Tensor& x) { return at::tanh((*dense)(x.select(1, 0))); }
    std::shared_ptr<Dense> dense;
  };

  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
};

namespace {

// As transformers: normal weights, zero for padding, zero biases, LayerNorm at one.
void initialise(torch::nn::Module& model, const BertConfig& config, at::Generator& generator) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with("bias")) {
      item.value().zero_();
    } else if (name.find("LayerNorm") != std::string::npos) {
      item.value().fill_(1);
    } else {
      item.value().normal_(0, config.initializer_range, generator);
      if (name.ends_with("word_embeddings.weight")) item.value()[kPaddingToken].zero_();
    }
  }
}

}  // namespace

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config,
                                                             std::uint64_t seed, at::Device device,
                                                             const LoraUpdates& lora)
    : config_(config),
      bert_(register_module("bert", std::make_shared<Bert>(config))),
      classifier_(
          register_module("classifier", std::make_shared<Dense>(config.hidden, config.labels))) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  initialise(*this, config, generator);
  if (lora.rank != 0) train_updates(lora, generator);
  to(device);
}

void BertForSequenceClassification::train_updates(const LoraUpdates& lora,
                                                  at::Generator& generator) {
  bert_->add_updates(lora, generator);
  for (auto& item : named_parameters()) {
    const bool is_trained = is_lora_factor(item.key()) || item.key().starts_with("classifier.");
    item.value().set_requires_grad(is_trained);
  }
}

Tensor BertForSequenceClassification::encode(const Batch& batch) {
  if (batch.input_ids.size(1) > config_.positions) {
    throw ConfigError(fmt::format("sequence_length: got {} tokens, expected at most BERT's {}",
                                  batch.input_ids.size(1), config_.positions));
  }
  return bert_->encode(batch, *this);
}

Tensor BertForSequenceClassification::classify(const Tensor& encoded) {
  return (*classifier_)(at::dropout(bert_->pool(encoded), config_.dropout, is_training()));
}

Tensor BertForSequenceClassification::logits(const Batch& batch) {
  return classify(encode(batch));
}

std::vector<Unit> BertForSequenceClassification::units() const {
  std::vector<Unit> result;
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const std::string name = fmt::format("bert.encoder.layer.{}", i);
    result.push_back({name, parameters_below(*this, name + ".")});
  }
  return result;
}

std::optional<std::vector<std::int64_t>> BertForSequenceClassification::unit_output_shape(
    std::size_t /*unit*/, const Batch& batch) const {
  return std::vector<std::int64_t>{batch.input_ids.size(0), batch.input_ids.size(1),
                                   config_.hidden};
}

Tensor BertForSequenceClassification::loss(const Batch& batch) {
  return run_end(encode(batch), [&](const Tensor& encoded) {
    return at::cross_entropy_loss(classify(encoded), batch.labels);
  });
}

}  // namespace gradsync::models
