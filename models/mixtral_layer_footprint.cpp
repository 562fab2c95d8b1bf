#include <algorithm>
#include <utility>

#include "models/footprints.h"
#include "models/mixtral_operations.h"

namespace gradsync::models::mixtral {

namespace {

// Blocks in which the CPU's flash attention goes over queries and keys; one thread.
// Source: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, torch 2.11.
struct AttentionBlocks {
  AttentionBlocks(const Sizes& sizes)
      : queries(std::min<std::int64_t>(sizes.shape.length, sizes.shape.length >= 768   ? 256
                                                           : sizes.shape.length >= 192 ? 64
                                                                                       : 32)),
        keys(std::min<std::int64_t>(sizes.shape.length, 512)),
        head_size(sizes.config.head_size()) {}

  // Scores, their maxima and sums, and the output of a block.
  std::int64_t forward() const {
    return (queries * keys + 2 * queries + queries * head_size) * kFloatBytes;
  }
  std::int64_t scores() const { return 2 * queries * keys * kFloatBytes; }  // and their gradient
  std::int64_t sums() const { return queries * kFloatBytes; }

  std::int64_t queries;
  std::int64_t keys;
  std::int64_t head_size;
};

// `size` of what turns: queries or keys.
void rotate(std::int64_t size, MemoryScript& script) {
  script.hold({size / 2, size});  // one half negated, both halves joined
  script.free({size / 2});
  script.hold({size, size, size});  // times cosine, times sine, their sum
  script.free({size, size, size});
}

// `angles`: cosine and sine, where nothing else needs them any more; else 0.
void rotate_backward(std::int64_t size, std::int64_t angles, MemoryScript& script) {
  script.hold({size});
  script.free({angles});
  script.hold({size});
  script.free({size, angles});
  script.hold({size / 2, size});  // the half negated, both halves apart
  script.free({size, size / 2, size});
}

void attention(const Sizes& sizes, const AttentionBlocks& blocks, MemoryScript& script) {
  script.made(kProduct, {sizes.hidden, sizes.key_value, sizes.key_value});
  rotate(sizes.hidden, script);
  rotate(sizes.key_value, script);
  script.made(kAttention, {sizes.hidden, sizes.per_head});  // context, log of sums
  script.within(kAttention, {blocks.forward()});
  script.made_and_saved(kAttention, {sizes.per_head});
  script.made(kProduct, {sizes.hidden});  // the output layer
  // Keys and queries as they were before they turned.
  script.gone(kProduct, {sizes.key_value, sizes.hidden});
  script.saved({sizes.hidden, sizes.key_value});       // and as they are
  script.made_and_saved(kProduct, {sizes.key_value});  // values
  script.made_and_saved(kAttention, {sizes.hidden});   // the context
}

// `angles`: as rotate_backward has them. `constant_input`: the residual beside needs no gradient.
void attention_backward(const Sizes& sizes, const AttentionBlocks& blocks, std::int64_t angles,
                        bool constant_input, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t kv = sizes.key_value;
  script.hold({sizes.square, x});  // the output layer
  if (constant_input) script.free({x});
  script.gradients({sizes.square});
  script.hold({x, kv, kv, blocks.scores(), blocks.sums()});  // of queries, keys, values
  script.free({blocks.sums(), blocks.scores()});
  script.free({x, kv, x, kv, sizes.per_head, x});  // what came; keys, queries, values, context
  rotate_backward(kv, 0, script);
  rotate_backward(x, angles, script);
  script.hold({sizes.key_value_matrix, x});  // values
  script.free({kv});
  script.gradients({sizes.key_value_matrix});
  script.hold({sizes.key_value_matrix, x});  // keys
  script.free({kv});
  script.hold({x});  // what both give their input
  script.free({x, x});
  script.gradients({sizes.key_value_matrix});
  script.hold({sizes.square, x});  // queries
  script.free({x, x});             // and the input
  script.free({x});                // added to the others'
  script.gradients({sizes.square});
}

void router(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t indices = sizes.choices * kLongBytes;
  const std::int64_t weights = sizes.choices * kFloatBytes;
  script.made(kProduct, {sizes.per_expert});  // logits
  script.hold({sizes.per_expert, indices});   // softmax, turns
  script.with_integer(indices);               // experts in turn
  script.free({indices});
  script.hold({weights, sizes.per_token, weights});  // chosen, their sum, its parts
  script.saved({weights, sizes.per_token, sizes.per_expert});
}

// Frees the router's input.
void router_backward(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t weights = sizes.choices * kFloatBytes;
  const std::int64_t gate = sizes.config.experts * sizes.vector;
  script.hold(
      {weights, weights, weights, weights});  // of the chosen, and three steps to their sum's
  script.free({weights, weights, weights});
  script.hold({weights, sizes.per_token});
  script.free({weights, weights, sizes.per_token, weights});
  script.free({sizes.per_token});  // added to those of the chosen
  script.hold({sizes.per_expert});
  script.free({weights, sizes.choices * kLongBytes});
  script.hold({sizes.per_expert});  // softmax
  script.free({sizes.per_expert, sizes.per_expert});
  script.hold({gate, sizes.hidden});
  script.free({sizes.per_expert, sizes.hidden});
  script.free({sizes.hidden});  // added to the experts'
  script.gradients({gate});
}

// Tokens that expert `index` sees when experts take turns.
std::int64_t tokens_of(const Sizes& sizes, std::int64_t index) {
  return (sizes.choices + sizes.config.experts - 1 - index) / sizes.config.experts;
}

void expert(const Sizes& sizes, std::int64_t tokens, MemoryScript& script) {
  const std::int64_t narrow = tokens * sizes.config.hidden * kFloatBytes;
  const std::int64_t wide = tokens * sizes.config.intermediate * kFloatBytes;
  script.hold({tokens * kLongBytes});        // which choices are this expert's
  script.with_integer(tokens * kLongBytes);  // whose
  script.hold({narrow});                     // input
  script.made(kProduct, {wide, wide});       // gate, up
  script.hold({wide, wide});                 // silu, their product
  script.made(kProduct, {narrow});           // output
  script.made_and_saved(kProduct, {wide, wide});
  script.saved({wide, wide, narrow});
  script.hold({tokens * kFloatBytes, narrow});  // weights, weighted
  script.made_and_saved(kProduct, {narrow});
  script.saved({tokens * kFloatBytes, narrow, tokens * kLongBytes, tokens * kLongBytes});
}

// `ran_again`: what was saved is handed out to its node of the graph, and goes when that has done
// its work: before the gradient of what was broadcast is summed, and not after.
void expert_backward(const Sizes& sizes, std::int64_t tokens, bool first_to_run, bool ran_again,
                     MemoryScript& script) {
  const std::int64_t narrow = tokens * sizes.config.hidden * kFloatBytes;
  const std::int64_t wide = tokens * sizes.config.intermediate * kFloatBytes;
  const std::int64_t weights = tokens * kFloatBytes;
  script.hold({narrow});  // of weighted
  script.free({narrow});
  script.hold({narrow, narrow});  // of the weights before the sum, of the output
  if (ran_again) script.free({narrow, weights});
  script.hold({weights});
  script.free({narrow, narrow});
  if (!ran_again) script.free({narrow, weights});
  script.hold({sizes.choices * kFloatBytes});  // of all weights
  script.free({weights, tokens * kLongBytes});
  if (!first_to_run) script.free({sizes.choices * kFloatBytes});  // added to the others'
  script.hold({sizes.expert_matrix, wide});                       // down
  script.free({narrow, wide});
  script.gradients({sizes.expert_matrix});
  script.hold({wide, wide});  // of up, of silu
  script.free({wide, wide, wide});
  script.hold({wide});  // of gate
  script.free({wide, wide});
  script.hold({sizes.expert_matrix, narrow});  // up
  script.free({wide});
  script.gradients({sizes.expert_matrix});
  script.hold({sizes.expert_matrix, narrow});  // gate
  script.free({wide, narrow});
  script.free({narrow});  // added to up's
  script.gradients({sizes.expert_matrix});
  script.hold({sizes.hidden});  // of all tokens
  script.free({narrow, tokens * kLongBytes});
  if (!first_to_run) script.free({sizes.hidden});  // added to the others'
}

// Up to the last tensor that an operation saves: what each expert adds, and to which tokens.
MemoryScript until_all_is_saved(const Sizes& sizes, bool constant_input, MemoryScript script) {
  rms_norm(sizes, script, constant_input);
  attention(sizes, AttentionBlocks(sizes), script);
  script.hold({sizes.hidden});  // residual
  script.gone(kProduct, {sizes.hidden});
  rms_norm(sizes, script);
  router(sizes, script);
  script.hold({sizes.hidden});  // to add the experts' outputs to
  for (std::int64_t i = 0; i < sizes.config.experts; ++i) {
    expert(sizes, tokens_of(sizes, i), script);
  }
  return script;
}

// Frees tensors at the end that no operation saved: the sum of outputs, their weights, the router's
// logits.
void unsaved_goes(const Sizes& sizes, MemoryScript& script) {
  script.free({sizes.hidden, sizes.choices * kFloatBytes});
  script.gone(kProduct, {sizes.per_expert});
}

MemoryScript layer_forward(const Sizes& sizes, bool constant_input, MemoryScript begun) {
  MemoryScript script = until_all_is_saved(sizes, constant_input, std::move(begun));
  script.hold({sizes.hidden});  // residual
  unsaved_goes(sizes, script);
  // Both norms' outputs, the first residual, which experts were chosen.
  script.saved({sizes.hidden, sizes.hidden, sizes.hidden, sizes.choices * kLongBytes});
  return script;
}

// `angles` go with the queries' turning, `with_input` with the layer's input; 0 and {}: not here.
MemoryScript layer_backward(const Sizes& sizes, std::int64_t angles, MemoryScript::Sizes with_input,
                            bool constant_input, bool ran_again) {
  MemoryScript script;
  for (std::int64_t i = sizes.config.experts; i-- > 0;) {
    expert_backward(sizes, tokens_of(sizes, i), i + 1 == sizes.config.experts, ran_again, script);
  }
  router_backward(sizes, script);
  rms_norm_backward(sizes, true, ran_again, script);
  attention_backward(sizes, AttentionBlocks(sizes), angles, constant_input, script);
  if (constant_input) {
    rms_norm_weight_backward(sizes, ran_again, script, with_input);
  } else {
    rms_norm_backward(sizes, true, ran_again, script, with_input);
  }
  return script;
}

}  // namespace

// The layer whose backward runs last lets the angles go; a checkpointed one keeps them to run
// again, until it has done its backward. Nothing keeps an input that is constant.
PassScript layer_pass(const Sizes& sizes, const UnitKind& kind) {
  const auto forward = [&](MemoryScript script) {
    return layer_forward(sizes, kind.constant_input, std::move(script));
  };
  if (kind.frozen) return frozen_pass(kind, sizes.hidden, forward);
  const std::int64_t angles = kind.last_to_run ? sizes.angles : 0;
  const std::int64_t input = kind.constant_input ? sizes.hidden : 0;
  if (!kind.checkpointed) {
    PassScript pass{forward({}), layer_backward(sizes, angles, {}, kind.constant_input, false), {}};
    pass.forward.free({input});
    return pass;
  }
  const auto again = [&](MemoryScript script) {
    MemoryScript run = until_all_is_saved(sizes, kind.constant_input, std::move(script));
    unsaved_goes(sizes, run);
    return run;
  };
  return checkpointed_pass(kind, forward, again,
                           layer_backward(sizes, 0, {kRandomStateBytes, angles, angles, input},
                                          kind.constant_input, true));
}

}  // namespace gradsync::models::mixtral
