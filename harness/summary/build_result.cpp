#include "harness/summary/build_result.h"

#include <algorithm>

#include "harness/summary/best_of_all.h"
#include "harness/summary/cell_summary.h"
#include "harness/summary/comparison.h"
#include "harness/summary/lower_bound.h"
#include "harness/summary/pareto_front.h"
#include "harness/summary/step_laws.h"
#include "harness/text/labels.h"

namespace gradsync::summary {

using results::CellResult;
using results::StepRatio;

namespace {

Known<StepRatio> compared(const results::Context& context, const std::vector<CellGroup>& groups,
                          const CellGroup& group, const std::string& reference) {
  const CellGroup* other = sibling(groups, group, reference);
  if (!other) return Unknown{"the plan has no " + reference + " cell to compare with"};
  if (const std::string why = timing_objection(context, *other); !why.empty()) {
    return Unknown{"no times of " + reference + ": " + why};
  }
  const auto ratio = compare_steps(group, *other);
  if (!ratio) return Unknown{"no round in which this cell and " + reference + " both ran"};
  return *ratio;
}

// What SyncBatchNorm costs, paired by round with the same cell without it.
Known<StepRatio> compared_with_local(const CellResult& cell, const results::Context& context,
                                     const std::vector<CellGroup>& groups, const CellGroup& group) {
  const CellGroup* local = with_local_statistics(groups, group);
  if (local == nullptr) return Unknown{"the plan has no such cell with sync_batch_norm false"};
  if (!cell.step_s) return Unknown{"no time"};
  if (const std::string why = timing_objection(context, *local); !why.empty()) {
    return Unknown{"no times with local statistics: " + why};
  }
  if (const auto ratio = compare_steps(group, *local)) return *ratio;
  return Unknown{"no round in which both ran"};
}

void add_comparisons(CellResult& cell, const results::Context& context,
                     const std::vector<CellGroup>& groups, const CellGroup& group) {
  cell.slowdown = Unknown{cell.step_s.why_not()};
  if (cell.step_s) cell.slowdown = compared(context, groups, group, kReferenceStrategy);
  if (group.cell.sync_batch_norm()) {
    cell.vs_local_statistics = compared_with_local(cell, context, groups, group);
  }
  // Whether a misplaced no_sync saves anything is a question about the baseline, so it is answered
  // by pairing with that, not by dividing two slowdowns.
  if (group.cell.strategy() != "no_sync_improper") return;
  cell.vs_baseline = Unknown{"no time"};
  if (cell.step_s) cell.vs_baseline = compared(context, groups, group, "baseline");
}

std::vector<results::StrategyName> strategies_of(const std::vector<CellResult>& cells) {
  std::vector<std::string> names;
  for (const CellResult& cell : cells) {
    const std::string name = cell.cell.strategy();
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::ranges::stable_sort(names, {}, place_of_strategy);
  std::vector<results::StrategyName> strategies;
  for (const std::string& name : names) strategies.push_back({name, text::strategy_label(name)});
  return strategies;
}

}  // namespace

results::Result build_result(const results::Context& context, const nlohmann::json& plan,
                             const std::vector<results::TrialRecord>& trials,
                             const std::vector<SkippedCell>& skipped) {
  const auto groups = group_by_cell(plan, trials, skipped);
  results::Result result;
  result.context = context;
  result.plan = plan;
  for (const CellGroup& group : groups) {
    CellResult cell = summarize_cell(context, group);
    add_comparisons(cell, context, groups, group);
    cell.lower_bound = cell.step_s ? lower_bound(*cell.step_s, context, groups, group)
                                   : Unknown{cell.step_s.why_not()};
    result.cells.push_back(std::move(cell));
  }
  result.strategies = strategies_of(result.cells);
  result.best = best_of_all(groups, result.cells);
  result.fronts = pareto_fronts(groups, result.cells);
  result.laws = step_laws(result.cells);
  return result;
}

}  // namespace gradsync::summary
