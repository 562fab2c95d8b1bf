#include <fmt/format.h>

#include "models/footprints.h"

namespace gradsync::models {
namespace {

// Sizes in bytes of the tensors that a BERT makes.
struct Sizes {
  Sizes(const BertConfig& config, const MicroBatchShape& shape)
      : hidden(shape.tokens() * config.hidden * kFloatBytes),
        wide(shape.tokens() * config.intermediate * kFloatBytes),
        scores(shape.examples * config.heads * shape.length * shape.length * kFloatBytes),
        per_token(shape.tokens() * kFloatBytes),
        one_example(shape.length * config.hidden * kFloatBytes),
        pooled(shape.examples * config.hidden * kFloatBytes),
        logits(shape.examples * config.labels * kFloatBytes),
        vector(config.hidden * kFloatBytes),
        wide_vector(config.intermediate * kFloatBytes),
        square(config.hidden * config.hidden * kFloatBytes),
        wide_matrix(config.hidden * config.intermediate * kFloatBytes) {}

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
};

void dropout(std::int64_t size, MemoryScript& script) {
  script.hold({size});  // the mask
  script.with_number(0);
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
  script.hold({sizes.hidden, sizes.vector, sizes.vector});
  script.hold({2 * sizes.vector});  // both parameters' gradients as one thread sums them
  script.free({2 * sizes.vector});
  script.free({sizes.hidden, sizes.hidden, sizes.per_token, sizes.per_token});
  script.gradients({sizes.vector, sizes.vector});
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

MemoryScript layer_forward(const Sizes& sizes, MemoryScript::Saved saved) {
  const std::int64_t x = sizes.hidden;
  MemoryScript script(saved);
  script.hold({x, x, x});  // queries, keys, values
  script.with_number(x);   // the scaled queries,
  script.hold({x, x});     // laid out by heads for the product, as are the keys
  script.hold({sizes.scores});
  script.saved({x, x});
  script.free({x});             // the scaled queries
  script.hold({sizes.scores});  // softmax
  dropout(sizes.scores, script);
  script.hold({x, x});                            // the values by heads, the context by heads
  script.saved({x, sizes.scores, sizes.scores});  // the former; with dropout, without
  script.free({sizes.scores});
  script.hold({x});           // the context by tokens
  script.free({x, x, x, x});  // by heads; values, keys, queries
  script.hold({x});           // attention's dense layer
  dropout(x, script);
  script.hold({x});  // residual
  layer_norm(sizes, script);
  script.free({x, x});                    // with dropout, without
  script.saved({x, x});                   // residual, the context
  script.hold({sizes.wide, sizes.wide});  // before and after gelu
  script.saved({sizes.wide});             // the former
  script.hold({x});
  dropout(x, script);
  script.hold({x});
  layer_norm(sizes, script);
  script.free({x, x});
  script.saved({x, sizes.wide, x});  // residual, after gelu, what attention made
  return script;
}

// One of the three products that made queries, keys and values: the gradient comes by heads, is
// laid out by tokens, and what it adds to the layer's input's is added at once.
void projection_backward(const Sizes& sizes, std::int64_t input_gradient, std::int64_t input,
                         MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  script.hold({x});
  script.free({x});
  linear_backward(input_gradient, sizes.square, sizes.vector, x, input, script);
  script.free({input_gradient});
}

// `input`: of the layer, and what else is kept as long. `constant_input`: it needs no gradient.
MemoryScript layer_backward(const Sizes& sizes, std::int64_t input, LetGo when,
                            bool constant_input) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t input_gradient = constant_input ? 0 : x;
  MemoryScript script;
  layer_norm_backward(sizes, script);
  script.hold({x});
  script.free({x});  // dropout's mask; the gradient also is the residual's
  linear_backward(sizes.wide, sizes.wide_matrix, sizes.vector, x, sizes.wide, script, when);
  script.hold({sizes.wide});  // gelu
  script.free({sizes.wide, sizes.wide});
  linear_backward(x, sizes.wide_matrix, sizes.wide_vector, sizes.wide, x, script, when);
  script.free({x});  // added to the residual's
  layer_norm_backward(sizes, script);
  script.hold({x});
  script.free({x, x - input_gradient});  // the gradient also is the residual's, if that needs one
  linear_backward(x, sizes.square, sizes.vector, x, x, script, when);
  script.hold({x});  // the context's gradient, by heads
  script.free({x});
  script.hold({x, sizes.scores});  // of values and probabilities
  script.free({x, x, sizes.scores});
  dropout_backward(sizes.scores, script);
  script.hold({sizes.scores});  // softmax
  script.free({sizes.scores, sizes.scores});
  script.hold({x, x});  // of keys and scaled queries
  script.free({sizes.scores, x, x});
  script.with_number(x);
  script.free({x});
  projection_backward(sizes, input_gradient, 0, script);      // values
  projection_backward(sizes, input_gradient, 0, script);      // keys
  projection_backward(sizes, input_gradient, input, script);  // queries, and the input goes
  return script;
}

PassScript kept_layer_pass(const Sizes& sizes, bool constant_input) {
  return {layer_forward(sizes, MemoryScript::Saved::Kept),
          layer_backward(sizes, sizes.hidden, LetGo::AfterNode, constant_input),
          {}};
}

PassScript checkpointed_layer_pass(const Sizes& sizes, bool constant_input) {
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(layer_forward(sizes, MemoryScript::Saved::Forgotten));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  pass.again.then(layer_forward(sizes, MemoryScript::Saved::Kept));
  pass.again.free({sizes.hidden, kRandomStateBytes});  // the output is there already
  pass.backward =
      layer_backward(sizes, sizes.hidden + kRandomStateBytes, LetGo::WithinItsTurn, constant_input);
  return pass;
}

// Keeps nothing, and has no backward.
PassScript frozen_layer_pass(const Sizes& sizes, bool checkpointed) {
  const std::int64_t random_state = checkpointed ? kRandomStateBytes : 0;
  PassScript pass;
  pass.forward.hold({random_state});
  pass.forward.then(layer_forward(sizes, MemoryScript::Saved::Forgotten));
  pass.forward.free({random_state, sizes.hidden});  // and its input
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
  dropout(x, script);
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

// Pooler, classifier, loss. `constant_input`: what it reads needs no gradient.
PassScript head_pass(const BertConfig& config, const Sizes& sizes, bool constant_input) {
  const std::int64_t classifier = config.labels * sizes.vector;
  PassScript pass;
  pass.forward.hold({sizes.pooled, sizes.pooled});  // before and after tanh
  pass.forward.free({sizes.pooled});
  dropout(sizes.pooled, pass.forward);
  pass.forward.hold({sizes.logits, sizes.logits});  // log-probabilities
  pass.forward.hold({kFloatBytes, kFloatBytes});    // the loss, its total weight
  pass.forward.free({sizes.logits});

  MemoryScript& script = pass.backward;
  script.hold({sizes.logits});
  script.free({kFloatBytes, kFloatBytes});
  script.hold({sizes.logits});
  script.free({sizes.logits, sizes.logits});
  linear_backward(sizes.pooled, classifier, config.labels * kFloatBytes, sizes.logits, sizes.pooled,
                  script);
  dropout_backward(sizes.pooled, script);
  script.hold({sizes.pooled});  // tanh
  script.free({sizes.pooled, sizes.pooled});
  const std::int64_t input_gradient = constant_input ? 0 : sizes.pooled;
  linear_backward(input_gradient, sizes.square, sizes.vector, sizes.pooled, sizes.hidden, script);
  if (constant_input) return pass;
  script.hold({sizes.hidden});  // the first token's gradient, and zeros for the others
  script.free({sizes.pooled});
  return pass;
}

std::vector<std::int64_t> embeddings_parameters(const BertConfig& config) {
  return {config.vocabulary * config.hidden, config.positions * config.hidden,
          config.token_types * config.hidden, config.hidden, config.hidden};
}

// Of pooler and classifier.
std::vector<std::int64_t> head_parameters(const BertConfig& config) {
  return {config.hidden * config.hidden, config.hidden, config.labels * config.hidden,
          config.labels};
}

std::vector<std::int64_t> layer_parameters(const BertConfig& config) {
  const std::int64_t square = config.hidden * config.hidden;
  const std::int64_t wide = config.hidden * config.intermediate;
  return {square, config.hidden, square,        config.hidden, square, config.hidden,
          square, config.hidden, config.hidden, config.hidden, wide,   config.intermediate,
          wide,   config.hidden, config.hidden, config.hidden};
}

}  // namespace

std::optional<Footprint> bert_footprint(const BertConfig& config, const MicroBatchShape& shape,
                                        const UnitLevers& levers) {
  if (shape.examples < 2 || shape.length < 2 || shape.length > config.positions) {
    return std::nullopt;
  }
  const Sizes sizes(config, shape);
  Footprint footprint;
  footprint.other_parameters = head_parameters(config);
  const bool embeddings_are_trained = levers.frozen == 0;
  std::vector<std::int64_t>& with_embeddings =
      embeddings_are_trained ? footprint.other_parameters : footprint.other_frozen;
  const auto embeddings = embeddings_parameters(config);
  with_embeddings.insert(with_embeddings.begin(), embeddings.begin(), embeddings.end());
  // Positions and token types.
  footprint.buffer_bytes = {config.positions * kLongBytes, config.positions * kLongBytes};
  footprint.before =
      embeddings_are_trained ? embeddings_pass(config, sizes) : frozen_embeddings_pass(sizes);
  const auto layers = static_cast<std::size_t>(config.layers);
  footprint.after = head_pass(config, sizes, levers.reads_what_is_frozen(layers));
  SharedPasses passes([&](const UnitKind& kind) { return layer_pass(sizes, kind); });
  for (std::size_t i = 0; i < layers; ++i) {
    footprint.units.push_back({fmt::format("bert.encoder.layer.{}", i), layer_parameters(config),
                               passes.of({levers, i})});
    if (levers.freezes(i)) freeze(footprint.units.back());
  }
  return footprint;
}

}  // namespace gradsync::models
