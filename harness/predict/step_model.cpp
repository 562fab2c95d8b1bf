#include "harness/predict/step_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/base/errors.h"
#include "models/footprint.h"

namespace gradsync::predict {
namespace {

std::int64_t scaled(std::int64_t elements, int scale) {
  return std::max<std::int64_t>(1, (2 * elements + scale) / (2 * std::int64_t{scale}));
}

Layer layer_of(const models::ProfileLayer& source, int scale) {
  Layer layer{source.name, source.forward_s, source.backward_s, {}};
  for (const models::ProfileTensor& parameter : source.parameters) {
    layer.elements.push_back(scaled(parameter.elements(), scale));
  }
  return layer;
}

double sum_of(const std::vector<Layer>& layers, double Layer::*seconds) {
  double sum = 0;
  for (const Layer& layer : layers) sum += layer.*seconds;
  return sum;
}

}  // namespace

double StepModel::forward_s() const {
  return sum_of(layers, &Layer::forward_s);
}

double StepModel::backward_s() const {
  return sum_of(layers, &Layer::backward_s);
}

std::int64_t StepModel::elements() const {
  std::int64_t sum = 0;
  for (const Layer& layer : layers) {
    sum += std::accumulate(layer.elements.begin(), layer.elements.end(), std::int64_t{0});
  }
  return sum;
}

StepModel step_model_of(const models::Profile& profile, int scale) {
  if (profile.layers.empty()) {
    throw ConfigError(fmt::format(
        "{}: field 'layers': got none, expected the seconds of each layer: record the profile on "
        "the machine itself, without --fake (models/record_profile.py)",
        profile.name));
  }
  StepModel model;
  model.name = profile.name;
  model.optimizer_s = profile.optimizer_s;
  for (const models::ProfileLayer& layer : profile.layers) {
    model.layers.push_back(layer_of(layer, scale));
  }
  for (const models::ProfileTensor& buffer : profile.buffers) {
    model.buffer_bytes.push_back(scaled(buffer.elements(), scale) * models::kLongBytes);
  }
  return model;
}

StepModel divided_into(const std::vector<std::string>& units, const StepModel& model) {
  const auto unit_of = [&](const Layer& layer) {
    for (const std::string& unit : units) {
      if (layer.name == unit || layer.name.starts_with(unit + ".")) return unit;
    }
    return std::string();
  };
  StepModel divided = model;
  divided.layers.clear();
  divided.shards_optimizer = true;
  for (const Layer& layer : model.layers) {
    const std::string name = unit_of(layer);
    if (divided.layers.empty() || divided.layers.back().name != name) {
      divided.layers.push_back({name, 0, 0, {}});
    }
    Layer& into = divided.layers.back();
    into.forward_s += layer.forward_s;
    into.backward_s += layer.backward_s;
    for (const std::int64_t elements : layer.elements) {
      if (name.empty()) {
        divided.root_elements += elements;
      } else {
        into.elements.push_back(elements);
      }
    }
  }
  return divided;
}

}  // namespace gradsync::predict
