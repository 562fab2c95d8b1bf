#include "harness/summary/part_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/base/grouped.h"
#include "harness/base/named.h"
#include "harness/plan/cell.h"
#include "harness/summary/plan_source.h"

namespace gradsync::summary {

using results::CellResult;
using results::StepRatio;

namespace {

std::vector<CellView> named(std::vector<CellView> cells) {
  std::vector<UnnamedCell> unnamed;
  for (const CellView& cell : cells) unnamed.push_back({&cell.cell, cell.name.topology});
  const std::vector<CellName> names = cell_names(unnamed);
  std::map<std::string, std::size_t> groups;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string group = cells[i].cell.topology() + " " + names[i].sharding;
    cells[i].name = names[i];
    cells[i].sharding_group = groups.try_emplace(group, groups.size()).first->second;
  }
  return cells;
}

std::vector<Setting> settings_of(const std::vector<CellView>& cells) {
  const auto but_strategy = [](const CellView& cell) {
    return cell.cell.without({"strategy"}).written();
  };
  std::vector<Setting> settings;
  for (auto& group : grouped(cells, but_strategy)) settings.push_back({std::move(group)});
  return settings;
}

std::vector<std::string> varying_in(const std::vector<CellView>& cells) {
  std::vector<std::string> names;
  if (cells.empty()) return names;
  for (const VaryingValue& value : cells.front().name.varying) names.push_back(value.name);
  return names;
}

bool decides_about_memory(const std::string& parameter) {
  const plan::Axis* axis = entry_named(plan::axes(), parameter);
  return axis != nullptr && axis->decides_memory;
}

int decimals_of(const std::vector<CellView>& cells) {
  std::vector<double> means_s;
  for (const CellView& cell : cells) {
    if (cell.step_s) means_s.push_back(cell.step_s->mean);
  }
  return text::decimals_for(means_s);
}

std::string step_size_of(const std::vector<CellView>& cells) {
  std::set<int> accumulation;
  for (const CellView& cell : cells) accumulation.insert(cell.cell.accumulation_steps());
  if (accumulation.size() != 1) return "accumulation_steps micro-batches";
  return text::counted(static_cast<std::size_t>(*accumulation.begin()), "micro-batch",
                       "micro-batches");
}

template <typename Entry>
std::vector<Entry> of_part(const std::vector<Entry>& entries, const std::string& part) {
  std::vector<Entry> own;
  std::ranges::copy_if(entries, std::back_inserter(own),
                       [&](const Entry& entry) { return entry.part == part; });
  return own;
}

}  // namespace

const CellView* Setting::under(const std::string& strategy) const {
  const auto found = std::ranges::find(cells, strategy,
                                       [](const CellView* cell) { return cell->cell.strategy(); });
  return found == cells.end() ? nullptr : *found;
}

const StepRatio* Setting::slowdown_of(const std::string& strategy) const {
  const CellView* cell = under(strategy);
  return cell && cell->is_ok() && cell->slowdown ? &*cell->slowdown : nullptr;
}

const StepRatio* Setting::improper_vs_baseline() const {
  const CellView* cell = under("no_sync_improper");
  if (!cell || !cell->is_ok() || !cell->vs_baseline) return nullptr;
  return *cell->vs_baseline ? &**cell->vs_baseline : nullptr;
}

PartView::PartView(std::string part, std::string said, std::vector<CellView> unnamed)
    : name(std::move(part)),
      about(std::move(said)),
      cells(named(std::move(unnamed))),
      settings(settings_of(cells)),
      varying(varying_in(cells)),
      decimals(decimals_of(cells)),
      timed(cells),
      step_size(step_size_of(cells)) {
  const bool differs = std::ranges::any_of(varying, decides_about_memory);
  for (const CellView& cell : cells) {
    is_paced |= cell.is_paced();
    several_topologies |= cell.cell.topology() != cells.front().cell.topology();
    is_about_memory |=
        cell.cell.wrapper() == "fsdp" && (differs || cell.cell.has("memory_budget_bytes"));
  }
}

bool PartView::varies(const std::string& parameter) const {
  return std::ranges::find(varying, parameter) != varying.end();
}

std::vector<PartView> parts_of(const results::Result& result) {
  std::vector<PartView> parts;
  for (const auto& group : grouped(result.cells, &CellResult::part)) {
    std::vector<CellView> cells;
    for (const CellResult* cell : group) {
      cells.push_back({*cell, {}});
      cells.back().name.topology = text::topology_label(result.context, *cell);
    }
    const std::string& name = group.front()->part;
    PartView& part = parts.emplace_back(name, about_part(result.plan, name), std::move(cells));
    part.timing_valid = result.context.timing_valid;
    part.is_on_nccl = result.context.backend == "nccl";
    part.laws = of_part(result.laws, name);
    part.best = of_part(result.best, name);
    part.fronts = of_part(result.fronts, name);
  }
  return parts;
}

}  // namespace gradsync::summary
