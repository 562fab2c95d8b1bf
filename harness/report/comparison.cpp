#include "harness/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/report/cell_summary.h"
#include "harness/stats/paired.h"
#include "harness/stats/sample.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

using Round = std::pair<int, int>;  // launch, round

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

std::map<Round, double> mean_by_round(const CellGroup& group) {
  std::map<Round, double> means;
  for (const auto* trial : group.ok_trials()) {
    const auto& steps = trial->step_s;
    if (steps.empty() || !std::all_of(steps.begin(), steps.end(), positive)) continue;
    means[{trial->launch, trial->round}] = stats::mean(steps);
  }
  return means;
}

const CellGroup* find_group(const std::vector<CellGroup>& groups, const std::string& part,
                            const json& cell) {
  const auto found = std::ranges::find_if(
      groups, [&](const CellGroup& group) { return group.part == part && group.cell == cell; });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

json compare_steps(const CellGroup& cell, const CellGroup& reference) {
  const auto means = mean_by_round(cell);
  std::vector<stats::Pair> pairs;
  for (const auto& [round, denominator] : mean_by_round(reference)) {
    const auto numerator = means.find(round);
    if (numerator == means.end()) continue;
    pairs.push_back({round.first, round.second, numerator->second, denominator});
  }
  if (pairs.empty()) return nullptr;
  const stats::Estimate ratio = stats::paired_ratio(pairs);
  const bool itself = &cell == &reference;
  return {{"vs", reference.cell.value("strategy", "")},
          {"ratio", itself ? 1.0 : ratio.value},
          {"ci95", itself ? json(nullptr) : interval_to_json(ratio.ci95)},
          {"pairs", pairs.size()}};
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
