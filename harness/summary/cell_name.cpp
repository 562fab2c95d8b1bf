#include "harness/summary/cell_name.h"

#include <fmt/format.h>

namespace gradsync::summary {

namespace {

std::string topology_in_table(const std::vector<UnnamedCell>& cells, std::size_t row) {
  const auto same = [&](std::size_t other) {
    return other < cells.size() && cells[other].cell->topology() == cells[row].cell->topology();
  };
  std::size_t before = 0;  // rows of this topology just above
  while (before < row && same(row - before - 1)) ++before;
  if (before == 0) return same(row + 1) ? cells[row].topology.shape : cells[row].topology.text();
  return before == 1 ? cells[row].topology.links : "";
}

}  // namespace

std::vector<std::string> CellName::heads() const {
  std::vector<std::string> heads{"topology"};
  for (const VaryingValue& value : varying) heads.push_back(value.name);
  heads.emplace_back("strategy");
  return heads;
}

std::vector<std::string> CellName::texts() const {
  std::vector<std::string> texts{topology_in_table};
  for (const VaryingValue& value : varying) texts.push_back(value.text);
  texts.push_back(strategy);
  return texts;
}

std::string CellName::varying_text(const std::set<std::string>& named, Sharding said) const {
  std::string text;
  for (const auto& [name, value] : varying) {
    if (named.contains(name)) continue;
    const bool by_name = name == "reshard_after_forward" && said == Sharding::ByName;
    text += by_name ? ", " + sharding : fmt::format(", {} {}", name, value);
  }
  return text;
}

std::vector<CellName> cell_names(const std::vector<UnnamedCell>& cells) {
  std::vector<const results::Parameters*> parameters;
  for (const UnnamedCell& cell : cells) parameters.push_back(cell.cell);
  const std::vector<std::string> varying = text::varying_names(parameters);
  std::vector<CellName> names;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    const results::Parameters& cell = *cells[row].cell;
    CellName name{.topology = cells[row].topology,
                  .topology_in_table = topology_in_table(cells, row),
                  .varying = {},
                  .sharding = text::sharding_label(cell),
                  .strategy = text::strategy_label(cell.strategy())};
    for (const std::string& parameter : varying) {
      name.varying.push_back({parameter, text::parameter_text(cell, parameter)});
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace gradsync::summary
