#include "harness/report/part_view.h"

#include <algorithm>
#include <set>

#include "harness/report/cell_group.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

std::string about_part(const json& plan, const std::string& part) {
  if (!plan.is_object() || !plan.contains("parts") || !plan["parts"].is_array()) return "";
  for (const json& candidate : plan["parts"]) {
    if (candidate.is_object() && candidate.value("name", "") == part) {
      return candidate.value("about", "");
    }
  }
  return "";
}

}  // namespace

bool is_paced(const json& cell) {
  return cell.value("timing", "") == "paced";
}

bool PartView::paced() const {
  return std::any_of(cells.begin(), cells.end(), is_paced);
}

bool PartView::several_topologies() const {
  const auto topology = [](const json& cell) { return cell["cell"].value("topology", ""); };
  return std::any_of(cells.begin(), cells.end(),
                     [&](const json& cell) { return topology(cell) != topology(cells.front()); });
}

std::vector<std::string> PartView::varying_parameters() const {
  std::vector<std::string> varying;
  std::set<std::string> names;
  for (const json& cell : cells) {
    for (const auto& [name, value] : cell["cell"].items()) names.insert(name);
  }
  for (const std::string& name : names) {
    if (name == "topology" || name == "strategy") continue;
    std::set<json> values;
    for (const json& cell : cells) values.insert(cell["cell"].value(name, json()));
    if (values.size() > 1) varying.push_back(name);
  }
  return varying;
}

std::vector<PartView> parts_of(const json& result) {
  std::vector<PartView> parts;
  for (const json& cell : result["cells"]) {
    const std::string name = cell.value("part", "");
    const auto same = [&](const PartView& part) { return part.name == name; };
    auto found = std::find_if(parts.begin(), parts.end(), same);
    if (found == parts.end()) {
      parts.push_back({name, about_part(result["plan"], name), result["context"], {}});
      found = parts.end() - 1;
    }
    found->cells.push_back(cell);
  }
  return parts;
}

const json* find_strategy(const PartView& part, const json& cell, const std::string& strategy) {
  const json rest = without_strategy(cell["cell"]);
  for (const json& other : part.cells) {
    if (other["cell"].value("strategy", "") == strategy &&
        without_strategy(other["cell"]) == rest) {
      return &other;
    }
  }
  return nullptr;
}

std::vector<json> settings_of(const PartView& part) {
  std::vector<json> settings;
  std::set<std::string> seen;
  for (const json& cell : part.cells) {
    if (seen.insert(without_strategy(cell["cell"]).dump()).second) settings.push_back(cell);
  }
  return settings;
}

}  // namespace gradsync::report
