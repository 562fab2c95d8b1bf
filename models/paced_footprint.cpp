#include <algorithm>

#include "models/footprints.h"
#include "models/replay.h"

namespace gradsync::models {
namespace {

// As PacedModel makes them.
std::int64_t scaled(const ProfileTensor& tensor, int scale) {
  if (scale == 1) return tensor.elements();
  return std::max<std::int64_t>(1, (2 * tensor.elements() + scale) / (2 * std::int64_t{scale}));
}

// Makes a layer's gradients.
void prepare(const std::vector<std::int64_t>& parameters, MemoryScript& script) {
  for (const std::int64_t elements : parameters) script.hold({elements * kFloatBytes});
}

// Hands over a layer's gradients, one node each, the last registered first. The signal's own, which
// passes through all nodes, goes in the model's first one.
void give(const std::vector<std::int64_t>& parameters, bool first_layer, MemoryScript& script) {
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (first_layer && i == 0) script.free({kFloatBytes});
    script.gradients({parameters[i] * kFloatBytes});
  }
  if (first_layer && parameters.empty()) script.free({kFloatBytes});
}

}  // namespace

Footprint paced_footprint(const Profile& profile, int scale) {
  Footprint footprint;
  footprint.steps_parameters = false;
  for (const ProfileTensor& buffer : profile.buffers) {
    footprint.buffer_bytes.push_back(scaled(buffer, scale) * kLongBytes);
  }
  footprint.before.forward.hold({kFloatBytes});  // the signal
  const std::vector<LayerReplay> replays = replay_of(profile, scale);
  std::vector<std::int64_t> earlier;  // parameters of the layer before
  for (const ProfileLayer& layer : profile.layers) {
    const std::size_t index = footprint.units.size();
    std::vector<std::int64_t> parameters;
    for (const ProfileTensor& tensor : layer.parameters) {
      parameters.push_back(scaled(tensor, scale));
    }
    PassScript pass;
    pass.forward.hold({kFloatBytes});  // the signal as its output
    if (!replays.empty()) pass.forward.then(replays[index].forward);
    pass.forward.free({kFloatBytes});
    if (replays.empty()) {
      prepare(earlier, pass.backward);
    } else {
      pass.backward.then(replays[index].backward);
      prepare(parameters, pass.backward);
    }
    give(parameters, footprint.units.empty(), pass.backward);
    footprint.units.push_back({layer.name, parameters, std::make_shared<PassScript>(pass)});
    earlier = std::move(parameters);
  }
  footprint.after.forward.hold({kFloatBytes});
  footprint.after.forward.free({kFloatBytes});
  if (replays.empty()) prepare(earlier, footprint.after.backward);
  return footprint;
}

}  // namespace gradsync::models
