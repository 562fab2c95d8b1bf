// BERT for sequence classification: the architecture, parameter names, shapes and order of Hugging
// Face's BertForSequenceClassification, so that checkpoints load and DDP cuts the same buckets.
//
// Source: Devlin et al. 2018; names and order as in transformers' modeling_bert.py.
#pragma once

#include <cstdint>
#include <memory>

#include "models/bert_config.h"
#include "models/model.h"

namespace gradsync::models {

class BertForSequenceClassification : public Model {
 public:
  // Parameters are drawn from `seed` alone, whatever the global generator's state.
  // `lora`: updates that are trained with the classifier while all else is frozen (models/lora.h),
  // as peft has them for a BERT that classifies; none: all is trained.
  // Errors: ConfigError for a rank that no matrix here can have.
  BertForSequenceClassification(const BertConfig& config, std::uint64_t seed, at::Device device,
                                const LoraUpdates& lora = {});

  at::Tensor loss(const Batch& batch) override;

  // Returns [micro_batch, labels].
  // Errors: ConfigError for a sequence longer than the position embeddings.
  at::Tensor logits(const Batch& batch);

  std::vector<Unit> units() const override;  // one per encoder layer
  std::optional<std::vector<std::int64_t>> unit_output_shape(std::size_t unit,
                                                             const Batch& batch) const override;
  std::int64_t vocabulary_size() const override { return config_.vocabulary; }

 private:
  class Bert;
  class Dense;
  void train_updates(const LoraUpdates& lora, at::Generator& generator);
  // Returns the last layer's hidden states, [micro_batch, sequence_length, hidden].
  at::Tensor encode(const Batch& batch);
  at::Tensor classify(const at::Tensor& encoded);

  BertConfig config_;
  std::shared_ptr<Bert> bert_;
  std::shared_ptr<Dense> classifier_;
};

}  // namespace gradsync::models
