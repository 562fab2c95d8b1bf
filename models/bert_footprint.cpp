#include <fmt/format.h>

#include "models/bert_operations.h"
#include "models/footprints.h"

namespace gradsync::models {
namespace {

using bert::Sizes;

void embed(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  // Words, token types, their sum, positions, the sum of all.
  script.hold({x, sizes.one_example, x, sizes.one_example, x});
  bert::layer_norm(sizes, script);
  bert::dropout(sizes, x, script);
  script.free({x, sizes.one_example, x, sizes.one_example, x});
  script.saved({x});  // the sum of all
}

PassScript embeddings_pass(const BertConfig& config, const Sizes& sizes) {
  const std::int64_t x = sizes.hidden;
  PassScript pass;
  embed(sizes, pass.forward);
  bert::dropout_backward(sizes, x, pass.backward);
  bert::layer_norm_backward(sizes, pass.backward);
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
PassScript head_pass(const Sizes& sizes, bool constant_input) {
  const std::int64_t pooled = sizes.pooler.output;
  const std::int64_t logits = sizes.classifier.output;
  PassScript pass;
  bert::linear(sizes.pooler, pass.forward);
  pass.forward.hold({pooled});  // after tanh
  bert::output_goes(sizes.pooler, pass.forward);
  bert::dropout(sizes, pooled, pass.forward);
  bert::linear(sizes.classifier, pass.forward);
  pass.forward.hold({logits});                        // log-probabilities
  pass.forward.hold({sizes.element, sizes.element});  // the loss, its total weight
  pass.forward.free({logits});
  // Only the first token of the encoder's output is read.
  if (!sizes.pooler.trains_anything()) pass.forward.free({sizes.hidden});

  MemoryScript& script = pass.backward;
  script.hold({logits});
  script.free({sizes.element, sizes.element});
  script.hold({logits});
  script.free({logits, logits});
  bert::linear_backward(sizes.classifier, {.input = pooled}, script);
  bert::dropout_backward(sizes, pooled, script);
  script.hold({pooled});  // tanh
  script.free({pooled, pooled});
  bert::linear_backward(sizes.pooler,
                        {.needs_input_gradient = !constant_input, .input = sizes.hidden}, script);
  if (constant_input) return pass;
  script.hold({sizes.hidden});  // the first token's gradient, and zeros for the others
  script.free({pooled});
  return pass;
}

std::vector<std::int64_t> embeddings_parameters(const BertConfig& config) {
  return {config.vocabulary * config.hidden, config.positions * config.hidden,
          config.token_types * config.hidden, config.hidden, config.hidden};
}

std::vector<std::int64_t> pooler_parameters(const BertConfig& config) {
  return {config.hidden * config.hidden, config.hidden};
}

// Returns the sizes of a layer's update; empty: it has none.
std::vector<std::int64_t> factors(const bert::Linear& layer) {
  if (!layer.has_update()) return {};
  return {layer.a / layer.element, layer.b / layer.element};
}

std::vector<std::int64_t> classifier_parameters(const BertConfig& config) {
  return {config.labels * config.hidden, config.labels};
}

// What is in no layer, in its order, with what of it is trained.
void add_other_parameters(const BertConfig& config, const Sizes& sizes, const UnitLevers& levers,
                          Footprint& footprint) {
  const auto add = [&](const std::vector<std::int64_t>& elements, bool trained) {
    auto& list = trained ? footprint.other_parameters : footprint.other_frozen;
    list.insert(list.end(), elements.begin(), elements.end());
  };
  const bool has_updates = levers.lora.rank > 0;
  add(embeddings_parameters(config), levers.frozen == 0 && !has_updates);
  add(pooler_parameters(config), !has_updates);
  add(factors(sizes.pooler), true);
  add(classifier_parameters(config), true);
}

std::vector<std::int64_t> layer_parameters(const BertConfig& config) {
  const std::int64_t square = config.hidden * config.hidden;
  const std::int64_t wide = config.hidden * config.intermediate;
  return {square, config.hidden, square,        config.hidden, square, config.hidden,
          square, config.hidden, config.hidden, config.hidden, wide,   config.intermediate,
          wide,   config.hidden, config.hidden, config.hidden};
}

// Which are trained in place of what the unit has, in its order.
void add_updates(const Sizes& sizes, UnitFootprint& unit) {
  unit.frozen.swap(unit.parameters);
  for (const bert::Linear* layer : {&sizes.query, &sizes.key, &sizes.value, &sizes.attention_output,
                                    &sizes.intermediate, &sizes.output}) {
    for (const std::int64_t elements : factors(*layer)) unit.parameters.push_back(elements);
  }
}

}  // namespace

std::optional<Footprint> bert_footprint(const BertConfig& config, const MicroBatchShape& shape,
                                        const UnitLevers& levers) {
  if (shape.examples < 2 || shape.length < 2 || shape.length > config.positions) {
    return std::nullopt;
  }
  const Sizes sizes(config, shape, levers);
  Footprint footprint;
  add_other_parameters(config, sizes, levers, footprint);
  // Positions and token types.
  footprint.buffer_bytes = {config.positions * kLongBytes, config.positions * kLongBytes};
  const bool embeddings_are_frozen = levers.reads_what_is_frozen(0);
  footprint.before =
      embeddings_are_frozen ? frozen_embeddings_pass(sizes) : embeddings_pass(config, sizes);
  const auto layers = static_cast<std::size_t>(config.layers);
  footprint.element_bytes = sizes.element;
  footprint.adds_biases = true;
  footprint.after = head_pass(sizes, levers.reads_what_is_frozen(layers));
  SharedPasses passes([&](const UnitKind& kind) { return bert::layer_pass(sizes, kind); });
  for (std::size_t i = 0; i < layers; ++i) {
    footprint.units.push_back({fmt::format("bert.encoder.layer.{}", i), layer_parameters(config),
                               passes.of({levers, i})});
    UnitFootprint& unit = footprint.units.back();
    if (levers.freezes(i)) freeze(unit);
    if (levers.lora.rank > 0) add_updates(sizes, unit);
  }
  return footprint;
}

}  // namespace gradsync::models
