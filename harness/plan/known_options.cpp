#include "harness/plan/known_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/errors.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

std::string plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_known(const Axis& axis, const json& value, Prediction prediction) {
  if (value == default_of(axis)) return true;
  const auto known = axis.known_to.find(prediction);
  if (known == axis.known_to.end()) return false;
  const std::vector<std::string>& values = known->second;
  return values.empty() || std::ranges::find(values, plain(value)) != values.end();
}

std::optional<UnknownOption> unknown(const Axis& axis, const json& value, Prediction prediction) {
  if (is_known(axis, value, prediction)) return std::nullopt;
  const auto because = axis.unknown_because.find(prediction);
  return UnknownOption{axis.name, value, default_of(axis), prediction,
                       because == axis.unknown_because.end() ? "" : because->second};
}

// The names of the fields that changes of --set are of: "static_graph" of
// "PART.static_graph=true".
std::set<std::string> fields_of(const std::vector<std::string>& overrides) {
  std::set<std::string> fields;
  for (const std::string& change : overrides) {
    const std::string key = change.substr(0, change.find('='));
    fields.insert(key.substr(key.rfind('.') + 1));
  }
  return fields;
}

bool stands_on_a_profile(Prediction prediction) {
  return prediction == Prediction::Step || prediction == Prediction::JobMemory;
}

}  // namespace

std::optional<UnknownOption> unknown_option(const json& cell, Prediction prediction) {
  for (const Axis& axis : axes()) {
    const json value = cell.value(axis.name, default_of(axis));
    if (auto found = unknown(axis, value, prediction)) return found;
  }
  return std::nullopt;
}

std::string sentence(const UnknownOption& unknown) {
  std::string option = fmt::format("{} {}", unknown.option, plain(unknown.value));
  const std::string because = unknown.because.empty() ? "" : ": " + unknown.because;
  switch (unknown.prediction) {
    case Prediction::Memory:
      return fmt::format("memory is not predicted with {}{}", option, because);
    case Prediction::JobMemory:
      return fmt::format("a recorded job's memory is not predicted with {}{}", option, because);
    case Prediction::Step:
      return fmt::format("a step's time is not predicted with {}{}", option, because);
    case Prediction::Advice:
      return fmt::format("advise does not know {}{}", option, because);
    case Prediction::Pace:
      return fmt::format("a paced model does not re-enact {}{}", option, because);
  }
  return option;
}

std::string why_unknown(const json& cell, Prediction prediction) {
  const auto unknown = unknown_option(cell, prediction);
  return unknown ? sentence(*unknown) : "";
}

void forget_unknown(Cell& cell, Prediction prediction) {
  for (const Axis& axis : axes()) {
    if (!is_known(axis, axis.get(cell), prediction)) axis.set(cell, default_of(axis));
  }
}

void refuse_unknown(const std::vector<std::string>& overrides, const std::vector<Cell>& cells,
                    Prediction prediction, const std::string& who) {
  const std::set<std::string> fields = fields_of(overrides);
  for (const Axis& axis : axes()) {
    if (!fields.contains(axis.name)) continue;
    const bool is_of_profile = axis.is_recorded && stands_on_a_profile(prediction);
    for (const Cell& cell : cells) {
      const json value = axis.get(cell);
      const auto found = is_of_profile
                             ? UnknownOption{axis.name, value, json(), prediction,
                                             "the micro-batch is the one that was recorded"}
                             : unknown(axis, value, prediction);
      if (found) throw ConfigError(fmt::format("{}: {}", who, sentence(*found)));
    }
  }
}

}  // namespace gradsync::plan
