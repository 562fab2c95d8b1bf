#include "harness/summary/claim_settings.h"

#include <fmt/format.h>

#include <map>

namespace gradsync::summary {

using results::CellResult;

namespace {

std::string machine_of(const CellView& cell) {
  const text::TopologyLabel& topology = cell.name.topology;
  return fmt::format("{} {} on {} ranks", cell.part,
                     cell.cell.without({"strategy", "topology"}).written().dump(),
                     topology.nodes * topology.ranks_per_node);
}

}  // namespace

const CellResult* ClaimSetting::that_syncs_each() const {
  if (under("no_sync") == nullptr) return nullptr;
  if (const CellResult* baseline = under("baseline")) return baseline;
  return is_fsdp ? under("sync_each_batch") : nullptr;
}

bool ClaimSetting::has_times(const CellResult& cell) const {
  return !cell.is_ok() || cell.step_s || !timing_valid;
}

std::vector<ClaimSetting> claim_settings(const std::vector<PartView>& parts) {
  std::vector<ClaimSetting> settings;
  for (const PartView& part : parts) {
    for (const Setting& setting : part.settings) {
      const CellView& cell = setting.first();
      if (cell.cell.accumulation_steps() < 2) continue;
      settings.push_back({.cells = &setting,
                          .part = part.name,
                          .place = cell.name.place() + (cell.is_paced() ? " (paced compute)" : ""),
                          .machine = machine_of(cell),
                          .nodes = cell.name.topology.nodes,
                          .is_ddp = cell.cell.wrapper() == "ddp",
                          .is_fsdp = cell.cell.wrapper() == "fsdp",
                          .timing_valid = part.timing_valid});
    }
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

}  // namespace gradsync::summary
