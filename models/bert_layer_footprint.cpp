#include "models/bert_operations.h"
#include "models/footprints.h"

namespace gradsync::models::bert {
namespace {

// The softmax of scaled_dot_product_attention, which takes rows that are masked as a whole for
// zeros.
void safe_softmax(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t number = sizes.element;
  const std::int64_t is_masked = sizes.scores / number;
  script.hold({sizes.scores, number});                         // the softmax; minus infinity
  script.hold({is_masked, sizes.rows, number, sizes.scores});  // by element, by row; a zero
  script.free({sizes.scores, number, is_masked, sizes.rows, number});
}

// `constant_input`: that of the layer needs no gradient.
bool keys_need_gradient(const Sizes& sizes, bool constant_input) {
  return !constant_input || sizes.key.trains_anything();
}

// From queries, keys and values to probabilities, with what is saved of them. Leaves the scaled
// queries and the scores of `Eager` to what follows.
void probabilities(const Sizes& sizes, bool constant_input, MemoryScript& script) {
  const std::int64_t x = sizes.hidden;
  const bool is_eager = sizes.attention == AttentionImplementation::Eager;
  script.with_number(x, sizes.element);                 // the scaled queries,
  if (!is_eager) script.with_number(x, sizes.element);  // and keys
  script.hold({x, x});                                  // both laid out by heads for the product
  script.made(kProduct, {sizes.scores});
  script.saved({x});  // for the queries' gradient, and for the keys'
  keys_need_gradient(sizes, constant_input) ? script.saved({x}) : script.free({x});
  script.free({x});  // what is scaled and no longer needed
  if (is_eager) {
    script.hold({sizes.scores});  // softmax
  } else {
    safe_softmax(sizes, script);
    script.gone(kProduct, {sizes.scores});
  }
  dropout(sizes, sizes.scores, script);
}

MemoryScript layer_forward(const Sizes& sizes, MemoryScript script, bool constant_input) {
  const std::int64_t x = sizes.hidden;
  const auto input_saved = [&](const Linear& layer) {
    layer.trains_anything() ? script.saved({layer.input}) : script.free({layer.input});
  };
  for (const Linear& layer : {sizes.query, sizes.key, sizes.value}) linear(layer, script);
  probabilities(sizes, constant_input, script);
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
  for (const Linear& layer : {sizes.query, sizes.key, sizes.value}) output_goes(layer, script);
  linear(sizes.attention_output, script);
  dropout(sizes, x, script);
  script.hold({x});  // residual
  layer_norm(sizes, script);
  script.free({x});                             // with dropout
  output_goes(sizes.attention_output, script);  // without
  script.saved({x});                            // residual
  input_saved(sizes.attention_output);          // the context
  linear(sizes.intermediate, script);
  script.hold({sizes.output.input});  // after gelu
  output_saved(sizes.intermediate, script);
  linear(sizes.output, script);
  dropout(sizes, x, script);
  script.hold({x});
  layer_norm(sizes, script);
  script.free({x});
  output_goes(sizes.output, script);
  script.saved({x});                // residual
  input_saved(sizes.output);        // after gelu
  input_saved(sizes.intermediate);  // what attention made
  return script;
}

// Plays the backward of the three products that made queries, keys and values. Each gradient comes
// by heads, is laid out by tokens, and its contribution to the gradient of the layer's input is
// added at once. The layer's input, and `beside`, which is kept as long, are freed with the last of
// the three.
void projections_backward(const Sizes& sizes, std::int64_t beside, LetGo when, bool constant_input,
                          MemoryScript& script) {
  if (when == LetGo::WithinItsTurn) when = LetGo::AfterLastNode;
  const auto backward = [&](const Linear& layer, bool is_last) {
    if (constant_input && !layer.trains_anything()) return;
    script.hold({layer.output});
    script.free({layer.output});
    linear_backward(layer,
                    {.needs_input_gradient = !constant_input,
                     .added = true,
                     .input = is_last ? sizes.hidden : 0,
                     .beside = is_last ? beside : 0,
                     .when = when},
                    script);
  };
  backward(sizes.value, false);
  backward(sizes.key, false);
  backward(sizes.query, true);
}

// `beside`: what is kept as long as the layer's input.
MemoryScript layer_backward(const Sizes& sizes, std::int64_t beside, LetGo when,
                            bool constant_input) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t keys_gradient = keys_need_gradient(sizes, constant_input) ? x : 0;
  MemoryScript script;
  // Backward of a layer whose input is kept only for it; `added`: to the residual's gradient.
  const auto backward = [&](const Linear& layer, bool added) {
    linear_backward(layer, {.added = added, .input = layer.input, .when = when}, script);
  };
  layer_norm_backward(sizes, script);
  script.hold({x});
  script.free({sizes.mask(x)});  // dropout's; the gradient also is the residual's
  backward(sizes.output, false);
  script.hold({sizes.output.input});  // gelu
  script.free({sizes.output.input, sizes.output.input});
  backward(sizes.intermediate, true);
  layer_norm_backward(sizes, script);
  script.hold({x});
  // The mask; the gradient also is the residual's, if that needs one.
  script.free({sizes.mask(x), constant_input ? x : 0});
  backward(sizes.attention_output, false);
  script.hold({x});  // the context's gradient, by heads
  script.free({x});
  script.hold({x, sizes.scores});  // of values and probabilities
  script.free({x, x, sizes.scores});
  dropout_backward(sizes, sizes.scores, script);
  script.hold({sizes.scores});  // softmax
  if (sizes.kernels.are_gpus) script.needs({sizes.scores});
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
  projections_backward(sizes, beside, when, constant_input, script);
  return script;
}

}  // namespace

PassScript layer_pass(const Sizes& sizes, const UnitKind& kind) {
  const auto forward = [&](MemoryScript script) {
    return layer_forward(sizes, std::move(script), kind.constant_input);
  };
  if (kind.frozen) return frozen_pass(kind, sizes.hidden, forward);
  if (!kind.checkpointed) {
    return {forward({}), layer_backward(sizes, 0, LetGo::AfterNode, kind.constant_input), {}};
  }
  const auto again = [&](MemoryScript script) {
    MemoryScript run = forward(std::move(script));
    run.free({sizes.hidden});  // the output is there already
    return run;
  };
  return checkpointed_pass(
      kind, forward, again,
      layer_backward(sizes, kRandomStateBytes, LetGo::WithinItsTurn, kind.constant_input));
}

}  // namespace gradsync::models::bert
