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
MemoryScript layer_backward(std::size_t i, const MicroBatchShape& shape, std::int64_t input) {
  const std::int64_t input_gradient = i > 0 ? rows_bytes(shape, kMlpWidths[i]) : 0;
  const std::int64_t output = rows_bytes(shape, kMlpWidths[i + 1]);
  const std::int64_t weight = kMlpWidths[i] * kMlpWidths[i + 1] * kFloatBytes;
  const std::int64_t bias = kMlpWidths[i + 1] * kFloatBytes;
  MemoryScript script;
  if (i + 1 < kLayers) {
    script.hold({output});
    script.free({output, output});
  }
  script.hold({input_gradient, weight, bias});  // the features need none
  script.free({output, input});
  script.gradients({bias, weight});
  return script;
}

PassScript layer_pass(std::size_t i, const MicroBatchShape& shape, CheckpointedUnits checkpointed) {
  // What a layer reads is also its predecessor's relu's to keep, unless that one runs again.
  const bool ends_with_it = i == 0 || checkpointed.has(i - 1);
  const std::int64_t input = ends_with_it ? rows_bytes(shape, kMlpWidths[i]) : 0;
  if (!checkpointed.has(i)) return {layer_forward(i, shape), layer_backward(i, shape, input), {}};
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(layer_forward(i, shape));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  // A product saves what it reads, before it begins: the last layer's is not made again.
  if (i + 1 < kLayers) pass.again.then(layer_forward(i, shape));
  pass.again.free({kRandomStateBytes});
  pass.backward = layer_backward(i, shape, input + kRandomStateBytes);
  return pass;
}

// The token counts that the first layer reads, from ids that stay until the loss.
MemoryScript features(const MicroBatchShape& shape) {
  const std::int64_t counts = rows_bytes(shape, kMlpWidths.front());
  const std::int64_t ones = shape.tokens() * kFloatBytes;
  MemoryScript script;
  script.with_integer(shape.tokens() * kLongBytes);
  script.hold({counts, ones, counts});
  script.free({ones, counts});
  return script;
}

PassScript loss_pass(const MicroBatchShape& shape) {
  const std::int64_t logits = rows_bytes(shape, kMlpWidths.back());
  PassScript pass;
  // Log-probabilities, the loss, its total weight.
  pass.forward.hold({logits, kFloatBytes, kFloatBytes});
  pass.forward.free({logits, shape.tokens() * kLongBytes});
  pass.backward.hold({logits});
  pass.backward.free({kFloatBytes, kFloatBytes});
  pass.backward.hold({logits});
  pass.backward.free({logits, logits});
  return pass;
}

}  // namespace

Footprint mlp_footprint(const MicroBatchShape& shape, CheckpointedUnits checkpointed) {
  Footprint footprint;
  footprint.before.forward = features(shape);
  for (std::size_t i = 0; i < kLayers; ++i) {
    footprint.units.push_back({fmt::format("layer{}", i),
                               {kMlpWidths[i] * kMlpWidths[i + 1], kMlpWidths[i + 1]},
                               std::make_shared<PassScript>(layer_pass(i, shape, checkpointed))});
  }
  footprint.after = loss_pass(shape);
  return footprint;
}

}  // namespace gradsync::models
