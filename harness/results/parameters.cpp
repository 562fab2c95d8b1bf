#include "harness/results/parameters.h"

namespace gradsync::results {

using nlohmann::json;

std::optional<double> Parameters::memory_budget_bytes() const {
  const json budget = value("memory_budget_bytes");
  return budget.is_null() ? std::nullopt : std::optional(budget.get<double>());
}

json Parameters::value(const std::string& name) const {
  return written_.value(name, json());
}

std::vector<std::string> Parameters::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : written_.items()) names.push_back(name);
  return names;
}

Parameters Parameters::with(const std::string& name, const json& value) const {
  Parameters changed = *this;
  changed.written_[name] = value;
  return changed;
}

Parameters Parameters::without(std::initializer_list<const char*> names) const {
  Parameters rest = *this;
  for (const char* name : names) rest.written_.erase(name);
  return rest;
}

}  // namespace gradsync::results
