#include <fmt/format.h>

#include "models/footprints.h"

namespace gradsync::models {
namespace {

// Sizes in bytes of the tensors that a BERT makes.
struct Sizes {
  Sizes(const BertConfig& config, const MicroBatchShape& shape, const UnitLevers& levers)
      : element(levers.element_bytes),
        hidden(shape.tokens() * config.hidden * element),
        wide(shape.tokens() * config.intermediate * element),
        scores(shape.examples * config.heads * shape.length * shape.length * element),
        per_token(shape.tokens() * element),
        one_example(shape.length * config.hidden * element),
        pooled(shape.examples * config.hidden * element),
        logits(shape.examples * config.labels * element),
        vector(config.hidden * element),
        wide_vector(config.intermediate * element),
        square(config.hidden * config.hidden * element),
        wide_matrix(config.hidden * config.intermediate * element),
        narrow(shape.tokens() * levers.lora_rank * element),
        factor(config.hidden * levers.lora_rank * element),
        rows(shape.examples * config.heads * shape.length),
        attention(config.attention),
        kept(levers.checkpointed.kept) {}

  // Those of the layers and the pooler.
  bool weights_are_trained() const { return factor == 0; }

  std::int64_t element;      // of a tensor
  std::int64_t hidden;       // [examples, length, hidden]: hidden states, queries, keys, values
  std::int64_t wide;         // [examples, length, intermediate]
  std::int64_t scores;       // [examples, heads, length, length]
  std::int64_t per_token;    // [examples, length]
  std::int64_t one_example;  // [1, length, hidden]: embeddings that are the same for all
  std::int64_t pooled;       // [examples, hidden]
  std::int64_t logits;       // [examples, labels]
  std::int64_t vector;       // parameters and their gradients
  std::int64_t wide_vector;
  std::int64_t square;
  std::int64_t wide_matrix;
  std::int64_t narrow;  // [examples, length, rank], of low-rank updates; 0 without
  std::int64_t factor;  // [rank, hidden] and [hidden, rank], likewise
  std::int64_t rows;    // [examples, heads, length, 1] of truth values: rows of the scores
  AttentionImplementation attention;
  KeptOutputs kept;  // of a checkpointed layer
};

void dropout(const Sizes& sizes, std::int64_t size, MemoryScript& script) {
  script.hold({size});  // the mask
  script.with_number(0, sizes.element);
  script.hold({size});
  script.saved({size});
}

void dropout_backward(std::int64_t size, MemoryScript& script) {
  script.hold({size});
  script.free({size, size});  // the gradient that came, the mask
}

// The result, and each token's mean and deviation.
void layer_norm(const Sizes& sizes, MemoryScript& script) {
  script.hold({sizes.hidden, sizes.per_token, sizes.per_token});
  script.saved({sizes.per_token, sizes.per_token});
}

void layer_norm_backward(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t vector = sizes.weights_are_trained() ? sizes.vector : 0;
  script.hold({sizes.hidden, vector, vector});
  script.hold({2 * vector});  // both parameters' gradients as one thread sums them
  script.free({2 * vector});
  script.free({sizes.hidden, sizes.hidden, sizes.per_token, sizes.per_token});
  script.gradients({vector, vector});
}

// When backward lets go of what an operation saved.
enum class LetGo {
  AfterNode,      // with the node of the graph that has it
  WithinItsTurn,  // it ran again and was handed out: before the node's gradients are summed
};

// Turns the gradient of a linear layer's output into that of its input and of its parameters.
// `input`: what it read, where nothing else needs it any more; else 0.
void linear_backward(std::int64_t input_gradient, std::int64_t weight, std::int64_t bias,
                     std::int64_t output_gradient, std::int64_t input, MemoryScript& script,
                     LetGo when = LetGo::AfterNode) {
  const bool early = when == LetGo::WithinItsTurn;
  script.hold({input_gradient, weight});
  if (early) script.free({input});
  script.hold({bias});  // a sum over all tokens
  script.free({output_gradient, early ? 0 : input});
  script.gradients({bias, weight});
}

// The same of a layer or the pooler, whose parameters may be frozen: what it read was not kept
// then.
void own_linear_backward(const Sizes& sizes, std::int64_t input_gradient, std::int64_t weight,
                         std::int64_t bias, std::int64_t output_gradient, std::int64_t input,
                         MemoryScript& script, LetGo when = LetGo::AfterNode) {
  const bool trained = sizes.weights_are_trained();
  linear_backward(input_gradient, trained ? weight : 0, trained ? bias : 0, output_gradient,
                  trained ? input : 0, script, when);
}

// Queries and values get their updates, where there are any.
void update(const Sizes& sizes, MemoryScript& script) {
  if (sizes.weights_are_trained()) return;
  const std::int64_t x = sizes.hidden;
  script.made(kProduct, {sizes.narrow, x});
  script.with_number(x, sizes.element);  // scaled
  script.gone(kProduct, {x});
  script.made_and_saved(kProduct, {sizes.narrow});
  script.hold({x});  // the sum
  script.gone(kProduct, {x});
  script.free({x});
}

// Queries, keys and values go: products, or sums with their updates.
void projections_go(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  script.gone(kProduct, {x});
  sizes.weights_are_trained() ? script.gone(kProduct, {x, x}) : script.free({x, x});
}

// The softmax of scaled_dot_product_attention, which takes rows that are masked as a whole for
// zeros.
void safe_softmax(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t number = sizes.element;
  const std::int64_t is_masked = sizes.scores / number;
  script.hold({sizes.scores, number});                         // the softmax; minus infinity
  script.hold({is_masked, sizes.rows, number, sizes.scores});  // by element, by row; a zero
  script.free({sizes.scores, number, is_masked, sizes.rows, number});
}

// From queries, keys and values to probabilities, with what is saved of them. `saved_for_keys`:
// notes what only the keys' gradient needs. Leaves the scaled queries and the scores of `Eager` to
// what follows.
template <typename SavedForKeys>
void probabilities(const Sizes& sizes, MemoryScript& script, const SavedForKeys& saved_for_keys) {
  const std::int64_t x = sizes.hidden;
  const bool is_eager = sizes.attention == AttentionImplementation::Eager;
  script.with_number(x, sizes.element);                 // the scaled queries,
  if (!is_eager) script.with_number(x, sizes.element);  // and keys
  script.hold({x, x});                                  // both laid out by heads for the product
  script.made(kProduct, {sizes.scores});
  script.saved({x});
  saved_for_keys(x);
  script.free({x});  // what is scaled and no longer needed
  if (is_eager) {
    script.hold({sizes.scores});  // softmax
  } else {
    safe_softmax(sizes, script);
    script.gone(kProduct, {sizes.scores});
  }
  dropout(sizes, sizes.scores, script);
}

// `constant_input`: it needs no gradient, and so neither do keys that only frozen weights made.
MemoryScript layer_forward(const Sizes& sizes, MemoryScript script, bool constant_input) {
  const std::int64_t x = sizes.hidden;
  // What only the gradient of a layer's own weight needs.
  const auto saved_for_weights = [&](MemoryScript::Sizes those) {
    sizes.weights_are_trained() ? script.saved(those) : script.free(those);
  };
  script.made(kProduct, {x});  // queries
  update(sizes, script);
  script.made(kProduct, {x, x});  // keys, values
  update(sizes, script);
  probabilities(sizes, script, [&](std::int64_t size) {
    constant_input ? saved_for_weights({size}) : script.saved({size});
  });
  script.hold({x});                               // the values by heads
  script.made(kAttention, {x});                   // the context by heads
  script.saved({x, sizes.scores, sizes.scores});  // the former; with dropout, without
  if (sizes.attention == AttentionImplementation::Eager) {
    script.gone(kProduct, {sizes.scores});
  } else {
    script.free({x});
  }
  script.hold({x});              // the context by tokens
  script.gone(kAttention, {x});  // by heads
  projections_go(sizes, script);
  script.made(kProduct, {x});  // attention's dense layer
  dropout(sizes, x, script);
  script.hold({x});  // residual
  layer_norm(sizes, script);
  script.free({x});            // with dropout
  script.gone(kProduct, {x});  // without
  script.saved({x});           // residual
  saved_for_weights({x});      // the context
  script.made(kProduct, {sizes.wide});
  script.hold({sizes.wide});  // after gelu
  script.made_and_saved(kProduct, {sizes.wide});
  script.made(kProduct, {x});
  dropout(sizes, x, script);
  script.hold({x});
  layer_norm(sizes, script);
  script.free({x});
  script.gone(kProduct, {x});
  script.saved({x});                   // residual
  saved_for_weights({sizes.wide, x});  // after gelu, what attention made
  return script;
}

// As projection_backward, with an update: its branch comes first, and the other one adds to it.
void updated_projection_backward(const Sizes& sizes, std::int64_t input_gradient,
                                 std::int64_t input, LetGo when, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  const bool constant_input = input_gradient == 0;
  // What is to run again goes with the last node that it has something for.
  const bool stays = when == LetGo::WithinItsTurn && !constant_input;
  script.hold({x});  // by tokens
  script.free({x});
  script.with_number(x, sizes.element);  // scaled
  if (constant_input) script.free({x});
  script.hold({sizes.factor, sizes.narrow});
  script.free({x, sizes.narrow});
  script.gradients({sizes.factor});  // B
  script.hold({sizes.factor, input_gradient});
  script.free({sizes.narrow, stays ? 0 : input});
  script.free({input_gradient});
  script.gradients({sizes.factor});  // A
  if (constant_input) return;
  script.hold({input_gradient});
  script.free({x, stays ? input : 0});
  script.free({input_gradient});
}

// One of the three products that made queries, keys and values: the gradient comes by heads, is
// laid out by tokens, and what it adds to the layer's input's is added at once.
void projection_backward(const Sizes& sizes, std::int64_t input_gradient, std::int64_t input,
                         MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  script.hold({x});
  script.free({x});
  own_linear_backward(sizes, input_gradient, sizes.square, sizes.vector, x, input, script);
  script.free({input_gradient});
}

// `input`: of the layer, and what else is kept as long, which goes with the last of the three.
void projections_backward(const Sizes& sizes, std::int64_t input_gradient, std::int64_t input,
                          LetGo when, MemoryScript& script) {
  if (sizes.weights_are_trained()) {
    projection_backward(sizes, input_gradient, 0, script);      // values
    projection_backward(sizes, input_gradient, 0, script);      // keys
    projection_backward(sizes, input_gradient, input, script);  // queries
    return;
  }
  updated_projection_backward(sizes, input_gradient, 0, when, script);
  if (input_gradient > 0) projection_backward(sizes, input_gradient, 0, script);
  updated_projection_backward(sizes, input_gradient, input, when, script);
}

// `input`: of the layer, and what else is kept as long. `constant_input`: it needs no gradient.
MemoryScript layer_backward(const Sizes& sizes, std::int64_t input, LetGo when,
                            bool constant_input) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t input_gradient = constant_input ? 0 : x;
  const std::int64_t keys_gradient = constant_input && !sizes.weights_are_trained() ? 0 : x;
  MemoryScript script;
  layer_norm_backward(sizes, script);
  script.hold({x});
  script.free({x});  // dropout's mask; the gradient also is the residual's
  own_linear_backward(sizes, sizes.wide, sizes.wide_matrix, sizes.vector, x, sizes.wide, script,
                      when);
  script.hold({sizes.wide});  // gelu
  script.free({sizes.wide, sizes.wide});
  own_linear_backward(sizes, x, sizes.wide_matrix, sizes.wide_vector, sizes.wide, x, script, when);
  script.free({x});  // added to the residual's
  layer_norm_backward(sizes, script);
  script.hold({x});
  script.free({x, x - input_gradient});  // the gradient also is the residual's, if that needs one
  own_linear_backward(sizes, x, sizes.square, sizes.vector, x, x, script, when);
  script.hold({x});  // the context's gradient, by heads
  script.free({x});
  script.hold({x, sizes.scores});  // of values and probabilities
  script.free({x, x, sizes.scores});
  dropout_backward(sizes.scores, script);
  script.hold({sizes.scores});  // softmax
  script.free({sizes.scores, sizes.scores});
  script.hold({keys_gradient, x});  // of keys and scaled queries
  script.free({sizes.scores, keys_gradient, x});
  if (sizes.attention == AttentionImplementation::Sdpa &&
      keys_gradient > 0) {  // the keys were scaled, too
    script.with_number(x, sizes.element);
    script.free({x});
  }
  script.with_number(x, sizes.element);
  script.free({x});
  projections_backward(sizes, input_gradient, input, when, script);
  return script;
}

PassScript kept_layer_pass(const Sizes& sizes, bool constant_input) {
  return {layer_forward(sizes, MemoryScript(), constant_input),
          layer_backward(sizes, sizes.hidden, LetGo::AfterNode, constant_input),
          {}};
}

PassScript checkpointed_layer_pass(const Sizes& sizes, bool constant_input) {
  using Saved = MemoryScript::Saved;
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(
      layer_forward(sizes, MemoryScript(Saved::Forgotten, sizes.kept), constant_input));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  pass.again.then(layer_forward(sizes, MemoryScript(Saved::Kept, sizes.kept), constant_input));
  pass.again.free({sizes.hidden, kRandomStateBytes});  // the output is there already
  pass.backward =
      layer_backward(sizes, sizes.hidden + kRandomStateBytes, LetGo::WithinItsTurn, constant_input);
  return pass;
}

// Keeps nothing, and has no backward.
PassScript frozen_layer_pass(const Sizes& sizes, bool checkpointed) {
  const std::int64_t random_state = checkpointed ? kRandomStateBytes : 0;
  const KeptOutputs kept = checkpointed ? sizes.kept : KeptOutputs::None;
  PassScript pass;
  pass.forward.hold({random_state});
  const MemoryScript layer =
      layer_forward(sizes, MemoryScript(MemoryScript::Saved::Forgotten, kept), true);
  pass.forward.then(layer);
  pass.forward.free({layer.kept_bytes(), random_state, sizes.hidden});  // and its input
  return pass;
}

PassScript layer_pass(const Sizes& sizes, const UnitKind& kind) {
  if (kind.frozen) return frozen_layer_pass(sizes, kind.checkpointed);
  return kind.checkpointed ? checkpointed_layer_pass(sizes, kind.constant_input)
                           : kept_layer_pass(sizes, kind.constant_input);
}

void embed(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  // Words, token types, their sum, positions, the sum of all.
  script.hold({x, sizes.one_example, x, sizes.one_example, x});
  layer_norm(sizes, script);
  dropout(sizes, x, script);
  script.free({x, sizes.one_example, x, sizes.one_example, x});
  script.saved({x});  // the sum of all
}

PassScript embeddings_pass(const BertConfig& config, const Sizes& sizes) {
  const std::int64_t x = sizes.hidden;
  PassScript pass;
  embed(sizes, pass.forward);
  dropout_backward(x, pass.backward);
  layer_norm_backward(sizes, pass.backward);
  for (const std::int64_t rows : {config.positions, config.token_types}) {
    const std::int64_t table = rows * sizes.vector;
    pass.backward.hold({sizes.one_example, table});  // the sum over examples, its table's gradient
    pass.backward.free({sizes.one_example});
    pass.backward.gradients({table});
  }
  const std::int64_t words = config.vocabulary * sizes.vector;
  pass.backward.hold({words});
  pass.backward.free({x});
  pass.backward.gradients({words});
  return pass;
}

PassScript frozen_embeddings_pass(const Sizes& sizes) {
  PassScript pass;
  pass.forward = MemoryScript(MemoryScript::Saved::Forgotten);
  embed(sizes, pass.forward);
  return pass;
}

// Pooler, classifier, loss. `constant_input`: what it reads needs no gradient. The classifier is
// always trained.
PassScript head_pass(const BertConfig& config, const Sizes& sizes, bool constant_input) {
  const std::int64_t classifier = config.labels * sizes.vector;
  PassScript pass;
  pass.forward.hold({sizes.pooled, sizes.pooled});  // before and after tanh
  pass.forward.free({sizes.pooled});
  dropout(sizes, sizes.pooled, pass.forward);
  pass.forward.hold({sizes.logits, sizes.logits});    // log-probabilities
  pass.forward.hold({sizes.element, sizes.element});  // the loss, its total weight
  pass.forward.free({sizes.logits});
  if (!sizes.weights_are_trained()) pass.forward.free({sizes.hidden});  // nothing needs it any more

  MemoryScript& script = pass.backward;
  script.hold({sizes.logits});
  script.free({sizes.element, sizes.element});
  script.hold({sizes.logits});
  script.free({sizes.logits, sizes.logits});
  linear_backward(sizes.pooled, classifier, config.labels * sizes.element, sizes.logits,
                  sizes.pooled, script);
  dropout_backward(sizes.pooled, script);
  script.hold({sizes.pooled});  // tanh
  script.free({sizes.pooled, sizes.pooled});
  const std::int64_t input_gradient = constant_input ? 0 : sizes.pooled;
  own_linear_backward(sizes, input_gradient, sizes.square, sizes.vector, sizes.pooled, sizes.hidden,
                      script);
  if (constant_input) return pass;
  script.hold({sizes.hidden});  // the first token's gradient, and zeros for the others
  script.free({sizes.pooled});
  return pass;
}

std::vector<std::int64_t> embeddings_parameters(const BertConfig& config) {
  return {config.vocabulary * config.hidden, config.positions * config.hidden,
          config.token_types * config.hidden, config.hidden, config.hidden};
}

std::vector<std::int64_t> pooler_parameters(const BertConfig& config) {
  return {config.hidden * config.hidden, config.hidden};
}

std::vector<std::int64_t> classifier_parameters(const BertConfig& config) {
  return {config.labels * config.hidden, config.labels};
}

// What is in no layer, in its order, with what of it is trained.
void add_other_parameters(const BertConfig& config, const UnitLevers& levers,
                          Footprint& footprint) {
  const auto add = [&](const std::vector<std::int64_t>& sizes, bool trained) {
    auto& list = trained ? footprint.other_parameters : footprint.other_frozen;
    list.insert(list.end(), sizes.begin(), sizes.end());
  };
  const bool has_updates = levers.lora_rank > 0;
  add(embeddings_parameters(config), levers.frozen == 0 && !has_updates);
  add(pooler_parameters(config), !has_updates);
  add(classifier_parameters(config), true);
}

std::vector<std::int64_t> layer_parameters(const BertConfig& config) {
  const std::int64_t square = config.hidden * config.hidden;
  const std::int64_t wide = config.hidden * config.intermediate;
  return {square, config.hidden, square,        config.hidden, square, config.hidden,
          square, config.hidden, config.hidden, config.hidden, wide,   config.intermediate,
          wide,   config.hidden, config.hidden, config.hidden};
}

// Which are trained in place of what the layer has: both factors of queries and of values.
void add_updates(const BertConfig& config, std::int64_t rank, UnitFootprint& unit) {
  constexpr std::size_t kFactors = 4;
  unit.frozen.swap(unit.parameters);
  unit.parameters.assign(kFactors, config.hidden * rank);
}

}  // namespace

std::optional<Footprint> bert_footprint(const BertConfig& config, const MicroBatchShape& shape,
                                        const UnitLevers& levers) {
  if (shape.examples < 2 || shape.length < 2 || shape.length > config.positions) {
    return std::nullopt;
  }
  const Sizes sizes(config, shape, levers);
  Footprint footprint;
  add_other_parameters(config, levers, footprint);
  // Positions and token types.
  footprint.buffer_bytes = {config.positions * kLongBytes, config.positions * kLongBytes};
  const bool embeddings_are_frozen = levers.reads_what_is_frozen(0);
  footprint.before =
      embeddings_are_frozen ? frozen_embeddings_pass(sizes) : embeddings_pass(config, sizes);
  const auto layers = static_cast<std::size_t>(config.layers);
  footprint.element_bytes = sizes.element;
  footprint.after = head_pass(config, sizes, levers.reads_what_is_frozen(layers));
  SharedPasses passes([&](const UnitKind& kind) { return layer_pass(sizes, kind); });
  for (std::size_t i = 0; i < layers; ++i) {
    footprint.units.push_back({fmt::format("bert.encoder.layer.{}", i), layer_parameters(config),
                               passes.of({levers, i})});
    UnitFootprint& unit = footprint.units.back();
    if (levers.freezes(i)) freeze(unit);
    if (levers.lora_rank > 0) add_updates(config, levers.lora_rank, unit);
  }
  return footprint;
}

}  // namespace gradsync::models
