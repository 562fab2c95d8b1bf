// The tensors that a Mixtral makes, and the operations of its layers as events of memory.   No
// torch.
#pragma once

#include <cstdint>

#include "models/footprint.h"
#include "models/mixtral_shapes.h"

namespace gradsync::models::mixtral {

// Sizes in bytes.
struct Sizes {
  Sizes(const MixtralConfig& its_config, const MicroBatchShape& its_shape)
      : config(its_config),
        shape(its_shape),
        hidden(shape.tokens() * config.hidden * kFloatBytes),
        key_value(shape.tokens() * config.key_value_heads * config.head_size() * kFloatBytes),
        per_token(shape.tokens() * kFloatBytes),
        per_head(config.heads * per_token),
        per_expert(config.experts * per_token),
        choices(shape.tokens() * config.experts_per_token),
        angles(shape.length * config.head_size() * kFloatBytes),
        logits(config.vocabulary * per_token),
        vector(config.hidden * kFloatBytes),
        square(config.hidden * vector),
        key_value_matrix(config.key_value_heads * config.head_size() * vector),
        expert_matrix(config.intermediate * vector),
        embeddings(config.vocabulary * vector) {}

  MixtralConfig config;
  MicroBatchShape shape;
  std::int64_t hidden;      // [examples, length, hidden]: hidden states, queries
  std::int64_t key_value;   // [examples, key-value heads, length, head size]
  std::int64_t per_token;   // [examples, length]
  std::int64_t per_head;    // [examples, heads, length]
  std::int64_t per_expert;  // [tokens, experts]
  std::int64_t choices;     // of experts, by all tokens together: a count
  std::int64_t angles;      // [length, head size]
  std::int64_t logits;      // [examples, length, vocabulary]
  std::int64_t vector;      // parameters and their gradients
  std::int64_t square;
  std::int64_t key_value_matrix;
  std::int64_t expert_matrix;
  std::int64_t embeddings;
};

// `constant_input`: what is normed needs no gradient, so that the weight alone keeps something.
void rms_norm(const Sizes& sizes, MemoryScript& script, bool constant_input = false);

// Frees its input, and `with_input` more. `added`: the input's gradient so far is there, and these
// are added to it. `ran_again`: what was saved is handed out to its node of the graph, and goes
// when that has done its work: before the gradient of what was broadcast is summed, and not after.
void rms_norm_backward(const Sizes& sizes, bool added, bool ran_again, MemoryScript& script,
                       MemoryScript::Sizes with_input = {});

// The same where the input is constant: of the weight alone. `with_normed` goes when normed does.
void rms_norm_weight_backward(const Sizes& sizes, bool ran_again, MemoryScript& script,
                              MemoryScript::Sizes with_normed = {});

// Returns a decoder layer on its way through a micro-batch.
PassScript layer_pass(const Sizes& sizes, const UnitKind& kind);

}  // namespace gradsync::models::mixtral
