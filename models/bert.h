// BERT for sequence classification: the architecture, parameter names, shapes and order of Hugging
// Face's BertForSequenceClassification, so that checkpoints load and DDP cuts the same buckets.
//
// Source: Devlin et al. 2018; names and order as in transformers' modeling_bert.py.
#pragma once

#include <cstdint>
#include <memory>

#include "models/model.h"

namespace gradsync::models {

struct BertConfig {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t intermediate = 3072;
  std::int64_t vocabulary = 28996;  // bert-base-cased
  std::int64_t positions = 512;
  std::int64_t token_types = 2;
  std::int64_t labels = 2;
  double dropout = 0.1;  // hidden, attention and classifier alike
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};

class BertForSequenceClassification : public Model {
 public:
  // Parameters are drawn from `seed` alone, whatever the global generator's state.
  BertForSequenceClassification(const BertConfig& config, std::uint64_t seed, at::Device device);

  at::Tensor loss(const Batch& batch) override;

  // Returns [micro_batch, labels].
  // Errors: ConfigError for a sequence longer than the position embeddings.
  at::Tensor logits(const Batch& batch);

  std::vector<Unit> units() const override;  // one per encoder layer
  std::int64_t vocabulary_size() const override { return config_.vocabulary; }

 private:
  class Bert;
  class Dense;
  BertConfig config_;
  std::shared_ptr<Bert> bert_;
  std::shared_ptr<Dense> classifier_;
};

}  // namespace gradsync::models
