#include <fmt/format.h>

#include "models/footprints.h"
#include "models/mlp_sizes.h"

namespace gradsync::models {
namespace {

constexpr std::size_t kLayers = kMlpWidths.size() - 1;

std::int64_t rows_bytes(const MicroBatchShape& shape, std::int64_t width) {
  return shape.examples * width * kFloatBytes;
}

PassScript layer_pass(std::size_t i, const MicroBatchShape& shape) {
  const std::int64_t input = rows_bytes(shape, kMlpWidths[i]);
  const std::int64_t output = rows_bytes(shape, kMlpWidths[i + 1]);
  const std::int64_t weight = kMlpWidths[i] * kMlpWidths[i + 1] * kFloatBytes;
  const std::int64_t bias = kMlpWidths[i + 1] * kFloatBytes;
  PassScript pass;
  pass.forward.hold({output});
  if (i + 1 < kLayers) {  // relu, which keeps its result and nothing else
    pass.forward.hold({output});
    pass.forward.free({output});
    pass.backward.hold({output});
    pass.backward.free({output, output});
  }
  // The features need no gradient, and go; what other layers read is their predecessor's relu's.
  pass.backward.hold({i > 0 ? input : 0, weight, bias});
  pass.backward.free({output, i > 0 ? 0 : input});
  pass.backward.gradients({bias, weight});
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

Footprint mlp_footprint(const MicroBatchShape& shape) {
  Footprint footprint;
  footprint.before.forward = features(shape);
  for (std::size_t i = 0; i < kLayers; ++i) {
    footprint.units.push_back({fmt::format("layer{}", i),
                               {kMlpWidths[i] * kMlpWidths[i + 1], kMlpWidths[i + 1]},
                               std::make_shared<PassScript>(layer_pass(i, shape))});
  }
  footprint.after = loss_pass(shape);
  return footprint;
}

}  // namespace gradsync::models
