#include "harness/summary/comparison.h"

#include <algorithm>

#include "harness/summary/cell_summary.h"
#include "harness/summary/launch_times.h"

namespace gradsync::summary {

using results::Parameters;
using results::StepRatio;

const CellGroup* find_group(const std::vector<CellGroup>& groups, const std::string& part,
                            const Parameters& cell) {
  const auto found = std::ranges::find_if(
      groups, [&](const CellGroup& group) { return group.part == part && group.cell == cell; });
  return found == groups.end() ? nullptr : &*found;
}

std::optional<StepRatio> compare_steps(const CellGroup& cell, const CellGroup& reference,
                                       double level) {
  const PairedMeans paired = paired_means(cell, reference);
  if (paired.launches.empty()) return std::nullopt;
  const stats::Estimate estimate = stats::ratio_of_pairs(paired.launches, level);
  StepRatio ratio;
  ratio.vs = reference.cell.strategy();
  ratio.launches = paired.launches.size();
  ratio.pairs = paired.rounds;
  ratio.ratio = 1;
  ratio.interval = "none: compared with itself";
  if (&cell == &reference) return ratio;
  ratio.ratio = estimate.value;
  ratio.ci95 = estimate.interval;
  ratio.interval = interval_kind(estimate, paired.launches.size());
  return ratio;
}

const CellGroup* sibling(const std::vector<CellGroup>& groups, const CellGroup& group,
                         const std::string& strategy) {
  return find_group(groups, group.part, group.cell.with("strategy", strategy));
}

const CellGroup* with_local_statistics(const std::vector<CellGroup>& groups,
                                       const CellGroup& group) {
  return find_group(groups, group.part, group.cell.with("sync_batch_norm", false));
}

}  // namespace gradsync::summary
