#include "models/bert_operations.h"

#include "models/footprints.h"

namespace gradsync::models::bert {
namespace {

// `rank`: of its update; 0: it has none.
Linear make_linear(std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t rank,
                   const UnitLevers& levers) {
  const std::int64_t element = levers.element_bytes;
  return {.input = rows * in * element,
          .output = rows * out * element,
          .weight = out * in * element,
          .bias = out * element,
          .bias_sum = sum_buffers(rows, out, levers.kernels),
          .own_are_trained = levers.lora.rank == 0,
          .narrow = rows * rank * element,
          .a = rank * in * element,
          .b = out * rank * element,
          .element = element};
}

}  // namespace

Sizes::Sizes(const BertConfig& config, const MicroBatchShape& shape, const UnitLevers& levers)
    : element(levers.element_bytes),
      hidden(shape.tokens() * config.hidden * element),
      scores(shape.examples * config.heads * shape.length * shape.length * element),
      per_token(shape.tokens() * element),
      one_example(shape.length * config.hidden * element),
      vector(config.hidden * element),
      rows(shape.examples * config.heads * shape.length),
      weights_are_trained(levers.lora.rank == 0),
      attention(config.attention),
      kernels(levers.kernels) {
  const auto layer = [&](std::int64_t in, std::int64_t out, LoraModules which) {
    Linear made = make_linear(shape.tokens(), in, out, levers.lora.rank_beside(which), levers);
    made.flattens = true;
    return made;
  };
  query = layer(config.hidden, config.hidden, LoraModules::QueryValue);
  key = layer(config.hidden, config.hidden, LoraModules::Attention);
  value = query;
  attention_output = key;
  intermediate = layer(config.hidden, config.intermediate, LoraModules::AllLinear);
  output = layer(config.intermediate, config.hidden, LoraModules::AllLinear);
  pooler = make_linear(shape.examples, config.hidden, config.hidden,
                       levers.lora.rank_beside(LoraModules::AllLinear), levers);
  classifier = make_linear(shape.examples, config.hidden, config.labels, 0, levers);
  classifier.own_are_trained = true;
}

void dropout(const Sizes& sizes, std::int64_t size, MemoryScript& script) {
  script.hold({sizes.mask(size)});
  script.with_number(0, sizes.element);
  script.hold({size});
  script.saved({sizes.mask(size)});
}

void dropout_backward(const Sizes& sizes, std::int64_t size, MemoryScript& script) {
  script.hold({size});
  script.free({size, sizes.mask(size)});  // the gradient that came, the mask
}

// The result, and each token's mean and deviation.
void layer_norm(const Sizes& sizes, MemoryScript& script) {
  script.hold({sizes.hidden, sizes.per_token, sizes.per_token});
  script.saved({sizes.per_token, sizes.per_token});
}

void layer_norm_backward(const Sizes& sizes, MemoryScript& script) {
  const std::int64_t vector = sizes.weights_are_trained ? sizes.vector : 0;
  script.hold({sizes.hidden, vector, vector});
  // Both parameters' gradients as one thread sums them.
  if (!sizes.kernels.are_gpus) script.needs({2 * vector});
  script.free({sizes.hidden, sizes.hidden, sizes.per_token, sizes.per_token});
  script.gradients({vector, vector});
}

void linear(const Linear& layer, MemoryScript& script) {
  const std::int64_t y = layer.output;
  script.made(kProduct, {y});
  if (!layer.has_update()) return;
  script.made(kProduct, {layer.narrow, y});
  script.with_number(y, layer.element);  // scaled
  script.gone(kProduct, {y});
  script.made_and_saved(kProduct, {layer.narrow});
  script.hold({y});  // the sum
  script.gone(kProduct, {y});
  script.free({y});
}

// The output is a product, or the sum of two.
void output_goes(const Linear& layer, MemoryScript& script) {
  layer.has_update() ? script.free({layer.output}) : script.gone(kProduct, {layer.output});
}

void output_saved(const Linear& layer, MemoryScript& script) {
  layer.has_update() ? script.saved({layer.output})
                     : script.made_and_saved(kProduct, {layer.output});
}

namespace {

// Without an update; frozen, it has not kept what it read.
void own_backward(const Linear& layer, const LinearBackward& how, MemoryScript& script) {
  const bool trained = layer.own_are_trained;
  const bool early = how.when == LetGo::WithinItsTurn;
  const std::int64_t input = trained ? how.input : 0;
  const std::int64_t beside = trained ? how.beside : 0;
  const std::int64_t input_gradient = how.needs_input_gradient ? layer.input : 0;
  script.hold({input_gradient, trained ? layer.weight : 0});
  if (early) script.free({input, beside});
  if (trained) {
    script.hold({layer.bias});
    script.needs(layer.bias_sum);
  }
  script.free({layer.output});
  if (!early) script.free({input, beside});
  if (trained) script.gradients({layer.bias, layer.weight});
  if (how.added) script.free({input_gradient});
}

// The update's branch comes first, and the other one adds to it: in place, unless what the first
// gave is a view.
void updated_backward(const Linear& layer, const LinearBackward& how, MemoryScript& script) {
  const std::int64_t y = layer.output;
  const std::int64_t input_gradient = how.needs_input_gradient ? layer.input : 0;
  const bool stays = how.when == LetGo::AfterLastNode && how.needs_input_gradient;
  script.with_number(y, layer.element);  // scaled
  if (!how.needs_input_gradient) script.free({y});
  script.hold({layer.b, layer.narrow});
  script.free({y, layer.narrow});
  script.gradients({layer.b});
  script.hold({layer.a, input_gradient});
  script.free({layer.narrow});
  if (!stays) script.free({how.input, how.beside});
  if (how.added) script.free({input_gradient});
  script.gradients({layer.a});
  if (!how.needs_input_gradient) return;
  script.hold({input_gradient});
  script.free({y});
  if (stays) script.free({how.input, how.beside});
  if (!how.added && layer.flattens) {
    script.hold({input_gradient});
    script.free({input_gradient});
  }
  script.free({input_gradient});
}

}  // namespace

void linear_backward(const Linear& layer, const LinearBackward& how, MemoryScript& script) {
  layer.has_update() ? updated_backward(layer, how, script) : own_backward(layer, how, script);
}

}  // namespace gradsync::models::bert
