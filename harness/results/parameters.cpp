#include "harness/results/parameters.h"

#include <algorithm>
#include <set>

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

std::vector<std::string> varying_names(const std::vector<const Parameters*>& cells) {
  std::set<std::string> names;
  for (const Parameters* cell : cells) {
    for (std::string& name : cell->names()) names.insert(std::move(name));
  }
  for (const char* told_apart : {"topology", "strategy"}) names.erase(told_apart);
  std::vector<std::string> varying;
  for (const std::string& name : names) {
    const json first = cells.front()->value(name);
    const auto differs = [&](const Parameters* cell) { return cell->value(name) != first; };
    if (std::ranges::any_of(cells, differs)) varying.push_back(name);
  }
  return varying;
}

}  // namespace gradsync::results
