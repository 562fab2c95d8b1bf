// Mixtral for causal language modelling: RMSNorm, rotary positions, grouped-query attention and a
// sparse mixture of experts; parameters as in mixtral_shapes.h, arithmetic as in Hugging Face's
// MixtralForCausalLM.
//
// Source: Jiang et al. 2024 (arXiv:2401.04088); order of operations as in transformers'
// modeling_mixtral.py, whose fused experts are spelled out as checkpoints store them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/mixtral_shapes.h"
#include "models/model.h"

namespace gradsync::models {

// Which experts see which tokens. Shapes: both [tokens, experts_per_token].
struct Routing {
  at::Tensor experts;  // int64, a token's are distinct
  at::Tensor weights;  // float32, a token's sum to 1
  bool in_turn =
      false;  // choice c, counted over all tokens, is expert c % experts: known beforehand
};

// Returns the top experts by the softmax of `logits`, [tokens, experts]. `balanced`: experts take
// turns instead, whatever the logits, so that all see equally many tokens (or one more, if the
// turns do not come out even); the weights still come from the softmax.
Routing route(const at::Tensor& logits, const MixtralConfig& config, bool balanced);

class MixtralForCausalLM : public Model {
 public:
  // Uses seed, device, dtype, uninitialised, balanced_routing and without_memory of `options`.
  // Parameters are drawn from the seed alone.
  MixtralForCausalLM(const MixtralConfig& config, const ModelOptions& options);
  ~MixtralForCausalLM() override;

  // Returns the mean cross entropy of each token given those before it; padding, which must be at
  // the end, is not predicted. Does not read batch.labels. The router's auxiliary loss is left out:
  // it is off in the published configuration. Errors: ConfigError for sequences of one token.
  at::Tensor loss(const Batch& batch) override;

  // Returns [micro_batch, sequence_length, vocabulary], of the parameters' type.
  at::Tensor logits(const Batch& batch);

  std::vector<Unit> units() const override;  // one per decoder layer
  std::string reads_back() const override;
  std::int64_t vocabulary_size() const override { return config_.vocabulary; }

  struct Layer;  // handles of a decoder layer's parameters

  // Inputs that all layers share.
  struct Surroundings {
    at::Tensor mask;          // [micro_batch, 1, length, length], bool; undefined: causal alone
    at::Tensor cosine, sine;  // of each position's angles, [length, head size]
  };

 private:
  void register_parameters(const ModelOptions& options);
  void register_rotary_buffers(at::Device device);
  Surroundings surroundings_of(const Batch& batch) const;
  at::Tensor run_layer(const Layer& layer, const at::Tensor& hidden,
                       const Surroundings& surroundings) const;

  MixtralConfig config_;
  bool balanced_routing_;
  std::vector<Layer> layers_;
  at::Tensor embedding_, norm_, head_;
  at::Tensor frequencies_;
};

}  // namespace gradsync::models
