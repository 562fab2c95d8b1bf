#include "harness/report/comparison.h"

#include <algorithm>

#include "harness/report/cell_summary.h"
#include "harness/report/launch_times.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

const CellGroup* find_group(const std::vector<CellGroup>& groups, const std::string& part,
                            const json& cell) {
  const auto found = std::ranges::find_if(
      groups, [&](const CellGroup& group) { return group.part == part && group.cell == cell; });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

json compare_steps(const CellGroup& cell, const CellGroup& reference, double level) {
  const PairedMeans paired = paired_means(cell, reference);
  if (paired.launches.empty()) return nullptr;
  const stats::Estimate ratio = stats::ratio_of_pairs(paired.launches, level);
  const bool itself = &cell == &reference;
  return {{"vs", reference.cell.value("strategy", "")},
          {"ratio", itself ? 1.0 : ratio.value},
          {"ci95", itself ? json(nullptr) : interval_to_json(ratio.interval)},
          {"interval",
           itself ? "none: compared with itself" : interval_kind(ratio, paired.launches.size())},
          {"launches", paired.launches.size()},
          {"pairs", paired.rounds}};
}

const CellGroup* sibling(const std::vector<CellGroup>& groups, const CellGroup& group,
                         const std::string& strategy) {
  json cell = group.cell;
  cell["strategy"] = strategy;
  return find_group(groups, group.part, cell);
}

const CellGroup* with_local_statistics(const std::vector<CellGroup>& groups,
                                       const CellGroup& group) {
  json cell = group.cell;
  cell.erase("sync_batch_norm");  // false is not written
  return find_group(groups, group.part, cell);
}

}  // namespace gradsync::report
