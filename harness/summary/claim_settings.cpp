#include "harness/summary/claim_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/summary/part_view.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;

namespace {

// By part: the parameters that tell its settings apart, beside the topology.
using Varying = std::map<std::string, std::vector<std::string>>;

std::string place_of(const results::Context& context, const CellResult& cell,
                     const std::vector<std::string>& varying) {
  std::string text = topology_label(context, cell).text();
  for (const std::string& name : varying) {
    text += fmt::format(", {} {}", name, parameter_text(cell.cell, name));
  }
  return text + (is_paced(cell) ? " (paced compute)" : "");
}

// Of cells of one part.
std::string machine_of(const CellResult& cell, const TopologyLabel& topology) {
  return fmt::format("{} on {} ranks", cell.cell.without({"strategy", "topology"}).written().dump(),
                     topology.nodes * topology.ranks_per_node);
}

ClaimSetting setting_of(const results::Context& context, const CellResult& cell,
                        const std::vector<std::string>& varying) {
  const TopologyLabel topology = topology_label(context, cell);
  return {.part = cell.part,
          .place = place_of(context, cell, varying),
          .machine = cell.part + " " + machine_of(cell, topology),
          .nodes = topology.nodes,
          .is_ddp = cell.cell.wrapper() == "ddp",
          .is_fsdp = cell.cell.wrapper() == "fsdp",
          .timing_valid = context.timing_valid,
          .by_strategy = {}};
}

Varying varying_of(const results::Result& result) {
  std::map<std::string, std::vector<const results::Parameters*>> parts;
  for (const CellResult& cell : result.cells) parts[cell.part].push_back(&cell.cell);
  Varying varying;
  for (const auto& [part, cells] : parts) varying[part] = results::varying_names(cells);
  return varying;
}

}  // namespace

const CellResult* ClaimSetting::find(const std::string& strategy) const {
  const auto found = by_strategy.find(strategy);
  return found == by_strategy.end() ? nullptr : found->second;
}

const CellResult* ClaimSetting::that_syncs_each() const {
  if (find("no_sync") == nullptr) return nullptr;
  if (const CellResult* baseline = find("baseline")) return baseline;
  return is_fsdp ? find("sync_each_batch") : nullptr;
}

bool ClaimSetting::has_times(const CellResult& cell) const {
  return !cell.is_ok() || cell.step_s || !timing_valid;
}

std::vector<ClaimSetting> claim_settings(const results::Result& result) {
  const Varying varying = varying_of(result);
  std::vector<ClaimSetting> settings;
  std::map<std::string, std::size_t> known;
  for (const CellResult& cell : result.cells) {
    if (cell.cell.accumulation_steps() < 2) continue;
    const std::string key = cell.part + cell.cell.without({"strategy"}).written().dump();
    const auto [place, is_new] = known.try_emplace(key, settings.size());
    if (is_new) settings.push_back(setting_of(result.context, cell, varying.at(cell.part)));
    settings[place->second].by_strategy[cell.cell.strategy()] = &cell;
  }
  return settings;
}

std::vector<AcrossNodes> across_nodes(const std::vector<ClaimSetting>& settings) {
  std::map<std::string, std::vector<const ClaimSetting*>> within;
  const auto counts = [](const ClaimSetting& setting) {
    const CellResult* each = setting.that_syncs_each();
    return each != nullptr && setting.has_times(*each);
  };
  for (const ClaimSetting& setting : settings) {
    if (setting.nodes == 1 && counts(setting)) within[setting.machine].push_back(&setting);
  }
  std::vector<AcrossNodes> pairs;
  for (const ClaimSetting& setting : settings) {
    if (setting.nodes < 2 || !counts(setting)) continue;
    for (const ClaimSetting* one : within[setting.machine]) pairs.emplace_back(&setting, one);
  }
  return pairs;
}

}  // namespace gradsync::report
