#include "models/frozen_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/errors.h"

namespace gradsync::models {
namespace {

std::set<std::string> parameters_of_first(const std::vector<Unit>& units, int count) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    const auto& of_unit = units[static_cast<std::size_t>(i)].parameters;
    names.insert(of_unit.begin(), of_unit.end());
  }
  return names;
}

}  // namespace

void freeze_units(Model& model, int count) {
  if (count == 0) return;
  const std::vector<Unit> units = model.units();
  if (static_cast<int>(units.size()) < count) {
    throw ConfigError(
        fmt::format("frozen_units: got {} of a model with {} units, expected at most "
                    "so many",
                    count, units.size()));
  }
  const std::set<std::string> frozen = parameters_of_first(units, count);
  const auto parameters = model.named_parameters().items();
  const auto last = std::find_if(parameters.rbegin(), parameters.rend(),
                                 [&](const auto& item) { return frozen.contains(item.key()); });
  if (last == parameters.rbegin()) {
    throw ConfigError(fmt::format(
        "frozen_units: got {}, which is all of the model, expected something left to train",
        count));
  }
  std::for_each(parameters.begin(), last.base(),
                [](const auto& item) { at::Tensor(item.value()).set_requires_grad(false); });
}

}  // namespace gradsync::models
