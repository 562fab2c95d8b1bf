#include <fmt/format.h>

#include "models/footprints.h"
#include "models/mlp_sizes.h"

namespace gradsync::models {
namespace {

constexpr std::size_t kLayers = kMlpWidths.size() - 1;

std::int64_t rows_bytes(const MicroBatchShape& shape, std::int64_t width) {
  return shape.examples * width * kFloatBytes;
}

// A linear layer, and after all but the last a relu, which keeps its result and nothing else.
MemoryScript layer_forward(std::size_t i, const MicroBatchShape& shape) {
  const std::int64_t output = rows_bytes(shape, kMlpWidths[i + 1]);
  MemoryScript script;
  script.hold({output});
  if (i + 1 < kLayers) {
    script.hold({output});
    script.free({output});
  }
  return script;
}

// `input`: what the layer read and else was kept as long, where nothing else needs it any more.
// `is_first`: what it read, features or what frozen layers made of them, needs no gradient.
MemoryScript layer_backward(std::size_t i, const MicroBatchShape& shape, std::int64_t input,
                            bool is_first) {
  const std::int64_t input_gradient = is_first ? 0 : rows_bytes(shape, kMlpWidths[i]);
  const std::int64_t output = rows_bytes(shape, kMlpWidths[i + 1]);
  const std::int64_t weight = kMlpWidths[i] * kMlpWidths[i + 1] * kFloatBytes;
  const std::int64_t bias = kMlpWidths[i + 1] * kFloatBytes;
  MemoryScript script;
  if (i + 1 < kLayers) {
    script.hold({output});
    script.free({output, output});
  }
  script.hold({input_gradient, weight, bias});
  script.free({output, input});
  script.gradients({bias, weight});
  return script;
}

// Keeps nothing, and has no backward.
PassScript frozen_pass(std::size_t i, const MicroBatchShape& shape, bool checkpointed) {
  const std::int64_t random_state = checkpointed ? kRandomStateBytes : 0;
  PassScript pass;
  pass.forward.hold({random_state});
  pass.forward.then(layer_forward(i, shape));
  pass.forward.free({random_state, rows_bytes(shape, kMlpWidths[i])});
  return pass;
}

PassScript layer_pass(std::size_t i, const MicroBatchShape& shape, const UnitLevers& levers) {
  const CheckpointedUnits& checkpointed = levers.checkpointed;
  if (levers.freezes(i)) return frozen_pass(i, shape, checkpointed.has(i));
  const bool is_first = i == levers.frozen;
  // What a layer reads is also its predecessor's relu's to keep, unless that one runs again.
  const bool ends_with_it = is_first || checkpointed.has(i - 1);
  const std::int64_t input = ends_with_it ? rows_bytes(shape, kMlpWidths[i]) : 0;
  if (!checkpointed.has(i)) {
    return {layer_forward(i, shape), layer_backward(i, shape, input, is_first), {}};
  }
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(layer_forward(i, shape));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  // A product saves what it reads, before it begins: the last layer's is not made again.
  if (i + 1 < kLayers) pass.again.then(layer_forward(i, shape));
  pass.again.free({kRandomStateBytes});
  pass.backward = layer_backward(i, shape, input + kRandomStateBytes, is_first);
  return pass;
}

// The token counts that the first layer reads.
MemoryScript features(const MicroBatchShape& shape) {
  const std::int64_t counts = rows_bytes(shape, kMlpWidths.front());
  const std::int64_t ones = shape.tokens() * kFloatBytes;
  MemoryScript script;
  script.with_integer(shape.tokens() * kLongBytes);
  script.hold({counts, ones, counts});
  script.free({ones, counts, shape.tokens() * kLongBytes});
  return script;
}

PassScript loss_pass(const MicroBatchShape& shape) {
  const std::int64_t logits = rows_bytes(shape, kMlpWidths.back());
  PassScript pass;
  // Log-probabilities, the loss, its total weight.
  pass.forward.hold({logits, kFloatBytes, kFloatBytes});
  pass.forward.free({logits});
  pass.backward.hold({logits});
  pass.backward.free({kFloatBytes, kFloatBytes});
  pass.backward.hold({logits});
  pass.backward.free({logits, logits});
  return pass;
}

}  // namespace

Footprint mlp_footprint(const MicroBatchShape& shape, const UnitLevers& levers) {
  Footprint footprint;
  footprint.before.forward = features(shape);
  for (std::size_t i = 0; i < kLayers; ++i) {
    footprint.units.push_back({fmt::format("layer{}", i),
                               {kMlpWidths[i] * kMlpWidths[i + 1], kMlpWidths[i + 1]},
                               std::make_shared<PassScript>(layer_pass(i, shape, levers))});
    if (levers.freezes(i)) freeze(footprint.units.back());
  }
  footprint.after = loss_pass(shape);
  return footprint;
}

}  // namespace gradsync::models
