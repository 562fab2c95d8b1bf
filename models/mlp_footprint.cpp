#include <fmt/format.h>

#include "models/footprints.h"

namespace gradsync::models {
namespace {

constexpr std::size_t kLayers = kMlpWidths.size() - 1;

// What a tensor takes.
struct MlpSizes {
  MlpSizes(const MicroBatchShape& its_shape, const UnitLevers& levers)
      : shape(its_shape), element_bytes(levers.element_bytes), kernels(levers.kernels) {}

  std::int64_t rows(std::int64_t width) const { return shape.examples * width * element_bytes; }

  MicroBatchShape shape;
  std::int64_t element_bytes;
  Kernels kernels;
};

// A linear layer, and after all but the last a relu, which keeps its result and nothing else.
MemoryScript layer_forward(std::size_t i, const MlpSizes& sizes, MemoryScript script = {}) {
  const std::int64_t output = sizes.rows(kMlpWidths[i + 1]);
  script.made(kProduct, {output});
  if (i + 1 < kLayers) {
    script.hold({output});
    script.gone(kProduct, {output});
  }
  return script;
}

// `kept`: what the layer read and else was kept as long, where nothing else needs it any more.
// `is_first`: what it read, features or what frozen layers made of them, needs no gradient.
MemoryScript layer_backward(std::size_t i, const MlpSizes& sizes, MemoryScript::Sizes kept,
                            bool is_first) {
  const std::int64_t input_gradient = is_first ? 0 : sizes.rows(kMlpWidths[i]);
  const std::int64_t output = sizes.rows(kMlpWidths[i + 1]);
  const std::int64_t weight = kMlpWidths[i] * kMlpWidths[i + 1] * sizes.element_bytes;
  const std::int64_t bias = kMlpWidths[i + 1] * sizes.element_bytes;
  MemoryScript script;
  if (i + 1 < kLayers) {
    script.hold({output});
    script.free({output, output});
  }
  script.hold({input_gradient, weight, bias});
  script.needs(sum_buffers(sizes.shape.examples, kMlpWidths[i + 1], sizes.kernels));
  script.free({output});
  script.free(kept);
  script.gradients({bias, weight});
  return script;
}

PassScript layer_pass(std::size_t i, const MlpSizes& sizes, const UnitLevers& levers) {
  const UnitKind kind(levers, i);
  const auto forward = [&](MemoryScript script) {
    return layer_forward(i, sizes, std::move(script));
  };
  if (kind.frozen) return frozen_pass(kind, sizes.rows(kMlpWidths[i]), forward);
  const bool is_first = kind.last_to_run;
  // A layer's input is also kept for the relu of its predecessor, unless that one runs again.
  const bool ends_with_it = is_first || levers.checkpointed.has(i - 1);
  const std::int64_t input = ends_with_it ? sizes.rows(kMlpWidths[i]) : 0;
  if (!kind.checkpointed) {
    return {layer_forward(i, sizes), layer_backward(i, sizes, {input}, is_first), {}};
  }
  // A product saves its input before it begins: that of the last layer is not computed again.
  const auto again = [&](MemoryScript script) {
    return i + 1 < kLayers ? forward(std::move(script)) : MemoryScript();
  };
  return checkpointed_pass(kind, forward, again,
                           layer_backward(i, sizes, {input, kRandomStateBytes}, is_first));
}

// The token counts that the first layer reads.
MemoryScript features(const MlpSizes& sizes) {
  const std::int64_t counts = sizes.rows(kMlpWidths.front());
  const std::int64_t ones = sizes.shape.tokens() * sizes.element_bytes;
  MemoryScript script;
  script.with_integer(sizes.shape.tokens() * kLongBytes);
  script.hold({counts, ones, counts});
  script.free({ones, counts, sizes.shape.tokens() * kLongBytes});
  return script;
}

PassScript loss_pass(const MlpSizes& sizes) {
  const std::int64_t logits = sizes.rows(kMlpWidths.back());
  PassScript pass;
  // Log-probabilities, the loss, its total weight.
  pass.forward.hold({logits, sizes.element_bytes, sizes.element_bytes});
  pass.forward.free({logits});
  pass.backward.hold({logits});
  pass.backward.free({sizes.element_bytes, sizes.element_bytes});
  pass.backward.hold({logits});
  pass.backward.free({logits, logits});
  return pass;
}

}  // namespace

Footprint mlp_footprint(const MicroBatchShape& shape, const UnitLevers& levers) {
  const MlpSizes sizes(shape, levers);
  Footprint footprint;
  footprint.before.forward = features(sizes);
  for (std::size_t i = 0; i < kLayers; ++i) {
    footprint.units.push_back({fmt::format("layer{}", i),
                               {kMlpWidths[i] * kMlpWidths[i + 1], kMlpWidths[i + 1]},
                               std::make_shared<PassScript>(layer_pass(i, sizes, levers))});
    if (levers.freezes(i)) freeze(footprint.units.back());
  }
  footprint.element_bytes = sizes.element_bytes;
  footprint.adds_biases = true;
  footprint.after = loss_pass(sizes);
  return footprint;
}

}  // namespace gradsync::models
