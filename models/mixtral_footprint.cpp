#include <algorithm>
#include <utility>

#include "models/footprints.h"

namespace gradsync::models {
namespace {

// MixtralSizes in bytes of the tensors that a Mixtral makes.
struct MixtralSizes {
  MixtralSizes(const MixtralConfig& config, const MicroBatchShape& shape)
      : hidden(shape.tokens() * config.hidden * kFloatBytes),
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

// Blocks in which the CPU's flash attention goes over queries and keys; one thread.
// Source: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, torch 2.11.
struct AttentionBlocks {
  AttentionBlocks(const MixtralConfig& config, const MicroBatchShape& shape)
      : queries(std::min<std::int64_t>(shape.length, shape.length >= 768   ? 256
                                                     : shape.length >= 192 ? 64
                                                                           : 32)),
        keys(std::min<std::int64_t>(shape.length, 512)),
        head_size(config.head_size()) {}

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

// `constant_input`: what is normed needs no gradient, so that the weight alone keeps something.
void rms_norm(const MixtralSizes& sizes, MemoryScript& script, bool constant_input = false) {
  script.hold({sizes.hidden, sizes.per_token});  // squares, their mean
  script.with_number(0);
  script.free({sizes.hidden});
  script.with_number(sizes.per_token);           // plus eps
  script.hold({sizes.per_token, sizes.hidden});  // inverse root, normed
  script.free({sizes.per_token});
  if (constant_input) {
    script.free({sizes.per_token});
  } else {
    script.saved({sizes.per_token});
  }
  script.hold({sizes.hidden});     // times the weight
  script.free({sizes.per_token});  // the mean
  script.saved({sizes.hidden});    // normed
}

// Frees its input, and `with_input` more. `added`: the input's gradient so far is there, and these
// are added to it. `ran_again`: see expert_backward.
void rms_norm_backward(const MixtralSizes& sizes, bool added, bool ran_again, MemoryScript& script,
                       std::int64_t with_input = 0) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t per_token = sizes.per_token;
  script.hold({x, x});              // of normed; of the weight, before the sum
  if (ran_again) script.free({x});  // normed
  script.hold({sizes.vector});
  script.free({x, x, ran_again ? 0 : x});  // before the sum, the gradient that came, normed
  script.gradients({sizes.vector});
  script.hold({x, x, per_token});  // of the inverse root, before and after the sum; of the input
  script.free({x, x});             // the former, and of normed
  if (added) script.free({x});
  script.hold({per_token});  // inverse root: its cube times -1/2
  script.with_number(per_token);
  script.hold({per_token});
  script.free({per_token, per_token, per_token, per_token});
  script.with_number(x);  // mean
  script.free({per_token});
  script.hold({x});  // square: 2 x
  script.with_number(x);
  script.hold({x});
  script.free({x, x, x, x, with_input});  // steps of the product, of the squares, the input
  script.free({x});                       // added to the input's
}

// The same where the input is constant: of the weight alone. `with_normed` goes when normed does.
void rms_norm_weight_backward(const MixtralSizes& sizes, bool ran_again, MemoryScript& script,
                              std::int64_t with_normed = 0) {
  const std::int64_t x = sizes.hidden;
  script.hold({x});  // before the sum
  if (ran_again) script.free({x, with_normed});
  script.hold({sizes.vector});
  script.free({x, x, ran_again ? 0 : x + with_normed});
  script.gradients({sizes.vector});
}

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

void attention(const MixtralSizes& sizes, const AttentionBlocks& blocks, MemoryScript& script) {
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
void attention_backward(const MixtralSizes& sizes, const AttentionBlocks& blocks,
                        std::int64_t angles, bool constant_input, MemoryScript& script) {
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

void router(const MixtralSizes& sizes, MemoryScript& script) {
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
void router_backward(const MixtralConfig& config, const MixtralSizes& sizes, MemoryScript& script) {
  const std::int64_t weights = sizes.choices * kFloatBytes;
  const std::int64_t gate = config.experts * sizes.vector;
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
std::int64_t tokens_of(const MixtralConfig& config, const MixtralSizes& sizes, std::int64_t index) {
  return (sizes.choices + config.experts - 1 - index) / config.experts;
}

void expert(const MixtralConfig& config, const MixtralSizes& sizes, std::int64_t tokens,
            MemoryScript& script) {
  const std::int64_t narrow = tokens * config.hidden * kFloatBytes;
  const std::int64_t wide = tokens * config.intermediate * kFloatBytes;
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
void expert_backward(const MixtralConfig& config, const MixtralSizes& sizes, std::int64_t tokens,
                     bool first_to_run, bool ran_again, MemoryScript& script) {
  const std::int64_t narrow = tokens * config.hidden * kFloatBytes;
  const std::int64_t wide = tokens * config.intermediate * kFloatBytes;
  const std::int64_t weights = tokens * kFloatBytes;
  script.hold({narrow});  // of weighted
  script.free({narrow});
  const std::int64_t output_and_weights = narrow + weights;
  script.hold({narrow, narrow});  // of the weights before the sum, of the output
  if (ran_again) script.free({output_and_weights});
  script.hold({weights});
  script.free({narrow, narrow, ran_again ? 0 : output_and_weights});
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
MemoryScript until_all_is_saved(const MixtralConfig& config, const MicroBatchShape& shape,
                                bool constant_input, MemoryScript script) {
  const MixtralSizes sizes(config, shape);
  rms_norm(sizes, script, constant_input);
  attention(sizes, AttentionBlocks(config, shape), script);
  script.hold({sizes.hidden});  // residual
  script.gone(kProduct, {sizes.hidden});
  rms_norm(sizes, script);
  router(sizes, script);
  script.hold({sizes.hidden});  // to add the experts' outputs to
  for (std::int64_t i = 0; i < config.experts; ++i) {
    expert(config, sizes, tokens_of(config, sizes, i), script);
  }
  return script;
}

// What nobody saved goes at the end: what outputs were added to, their weights, the router's
// logits.
void unsaved_goes(const MixtralSizes& sizes, MemoryScript& script) {
  script.free({sizes.hidden + sizes.choices * kFloatBytes});
  script.gone(kProduct, {sizes.per_expert});
}

MemoryScript layer_forward(const MixtralConfig& config, const MicroBatchShape& shape,
                           bool constant_input, MemoryScript begun) {
  const MixtralSizes sizes(config, shape);
  MemoryScript script = until_all_is_saved(config, shape, constant_input, std::move(begun));
  script.hold({sizes.hidden});  // residual
  unsaved_goes(sizes, script);
  // Both norms' outputs, the first residual, which experts were chosen.
  script.saved({sizes.hidden, sizes.hidden, sizes.hidden, sizes.choices * kLongBytes});
  return script;
}

// `angles` go with the queries' turning, `with_input` with the layer's input; 0: not here.
MemoryScript layer_backward(const MixtralConfig& config, const MicroBatchShape& shape,
                            std::int64_t angles, std::int64_t with_input, bool constant_input,
                            bool ran_again) {
  const MixtralSizes sizes(config, shape);
  MemoryScript script;
  for (std::int64_t i = config.experts; i-- > 0;) {
    expert_backward(config, sizes, tokens_of(config, sizes, i), i + 1 == config.experts, ran_again,
                    script);
  }
  router_backward(config, sizes, script);
  rms_norm_backward(sizes, true, ran_again, script);
  attention_backward(sizes, AttentionBlocks(config, shape), angles, constant_input, script);
  if (constant_input) {
    rms_norm_weight_backward(sizes, ran_again, script, with_input);
  } else {
    rms_norm_backward(sizes, true, ran_again, script, with_input);
  }
  return script;
}

// The layer whose backward runs last lets the angles go. Nothing keeps an input that is constant.
PassScript kept_layer_pass(const MixtralConfig& config, const MicroBatchShape& shape,
                           const UnitKind& kind) {
  const MixtralSizes sizes(config, shape);
  PassScript pass;
  pass.forward = layer_forward(config, shape, kind.constant_input, MemoryScript());
  if (kind.constant_input) pass.forward.free({sizes.hidden});
  pass.backward = layer_backward(config, shape, kind.last_to_run ? sizes.angles : 0, 0,
                                 kind.constant_input, false);
  return pass;
}

// It keeps the angles to run again, until it has done its backward.
PassScript checkpointed_layer_pass(const MixtralConfig& config, const MicroBatchShape& shape,
                                   const UnitKind& kind) {
  using Saved = MemoryScript::Saved;
  const MixtralSizes sizes(config, shape);
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(
      layer_forward(config, shape, kind.constant_input, MemoryScript(Saved::Forgotten, kind.kept)));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  MemoryScript again =
      until_all_is_saved(config, shape, kind.constant_input, MemoryScript(Saved::Kept, kind.kept));
  unsaved_goes(sizes, again);
  pass.again.then(again);
  pass.again.free({kRandomStateBytes});
  const std::int64_t with_input = kRandomStateBytes + (kind.last_to_run ? 2 * sizes.angles : 0) +
                                  (kind.constant_input ? sizes.hidden : 0);
  pass.backward = layer_backward(config, shape, 0, with_input, kind.constant_input, true);
  return pass;
}

// Keeps nothing, not even its input, and has no backward.
PassScript frozen_layer_pass(const MixtralConfig& config, const MicroBatchShape& shape,
                             const UnitKind& kind) {
  const std::int64_t random_state = kind.checkpointed ? kRandomStateBytes : 0;
  PassScript pass;
  pass.forward.hold({random_state});
  const MemoryScript layer =
      layer_forward(config, shape, true, MemoryScript(MemoryScript::Saved::Forgotten, kind.kept));
  pass.forward.then(layer);
  pass.forward.free({layer.kept_bytes(), random_state, MixtralSizes(config, shape).hidden});
  return pass;
}

PassScript layer_pass(const MixtralConfig& config, const MicroBatchShape& shape,
                      const UnitKind& kind) {
  if (kind.frozen) return frozen_layer_pass(config, shape, kind);
  return kind.checkpointed ? checkpointed_layer_pass(config, shape, kind)
                           : kept_layer_pass(config, shape, kind);
}

PassScript embeddings_pass(const MixtralSizes& sizes, const MicroBatchShape& shape, bool trained) {
  const std::int64_t positions = shape.length * kFloatBytes;
  PassScript pass;
  pass.forward.hold({shape.tokens() * kLongBytes});  // the labels
  // Positions, their angles once and twice, cosine and sine.
  pass.forward.hold({positions, sizes.angles / 2, sizes.angles, sizes.angles, sizes.angles});
  pass.forward.free({sizes.angles, sizes.angles / 2, positions});
  pass.forward.hold({sizes.hidden});
  if (!trained) return pass;
  pass.backward.hold({sizes.embeddings});
  pass.backward.free({sizes.hidden});
  pass.backward.gradients({sizes.embeddings});
  return pass;
}

// Norm, head, loss. `constant_input`: all layers are frozen, and so nothing keeps the angles
// either.
PassScript head_pass(const MixtralSizes& sizes, const MicroBatchShape& shape, bool constant_input) {
  PassScript pass;
  rms_norm(sizes, pass.forward, constant_input);
  pass.forward.hold({sizes.logits});
  if (constant_input) pass.forward.free({sizes.hidden, sizes.angles, sizes.angles});
  pass.forward.hold({sizes.logits});              // log-probabilities
  pass.forward.hold({kFloatBytes, kFloatBytes});  // the loss, its total weight
  pass.forward.free({sizes.logits});
  pass.backward.hold({sizes.logits});
  pass.backward.free({kFloatBytes, shape.tokens() * kLongBytes, kFloatBytes});
  pass.backward.hold({sizes.logits});
  pass.backward.free({sizes.logits, sizes.logits});
  pass.backward.hold({sizes.embeddings, sizes.hidden});
  pass.backward.free({sizes.logits, sizes.hidden});
  pass.backward.gradients({sizes.embeddings});
  if (constant_input) {
    rms_norm_weight_backward(sizes, false, pass.backward);
  } else {
    rms_norm_backward(sizes, false, false, pass.backward);
  }
  return pass;
}

}  // namespace

Footprint mixtral_footprint(const MixtralConfig& config, const MicroBatchShape& shape,
                            const UnitLevers& levers) {
  const MixtralSizes sizes(config, shape);
  Footprint footprint;
  // Frequencies, and a copy of them.
  const std::int64_t frequencies = config.head_size() / 2 * kFloatBytes;
  footprint.buffer_bytes = {frequencies, frequencies};
  const bool embeddings_are_trained = levers.frozen == 0;
  const auto layers = static_cast<std::size_t>(config.layers);
  footprint.before = embeddings_pass(sizes, shape, embeddings_are_trained);
  footprint.after = head_pass(sizes, shape, levers.reads_what_is_frozen(layers));
  SharedPasses passes([&](const UnitKind& kind) { return layer_pass(config, shape, kind); });
  for (const MixtralTensor& tensor : mixtral_shapes(config)) {
    std::vector<UnitFootprint>& units = footprint.units;
    if (tensor.unit.empty()) {
      const bool is_embeddings = units.empty();
      (is_embeddings && !embeddings_are_trained ? footprint.other_frozen
                                                : footprint.other_parameters)
          .push_back(tensor.elements());
      continue;
    }
    if (units.empty() || units.back().name != tensor.unit) {
      units.push_back({tensor.unit, {}, passes.of({levers, units.size()})});
    }
    units.back().parameters.push_back(tensor.elements());
  }
  for (std::size_t i = 0; i < levers.frozen; ++i) freeze(footprint.units[i]);
  return footprint;
}

}  // namespace gradsync::models
