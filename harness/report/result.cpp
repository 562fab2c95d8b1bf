#include "harness/report/result.h"

#include "harness/report/best_of_all.h"
#include "harness/report/cell_summary.h"
#include "harness/report/comparison.h"
#include "harness/report/lower_bound.h"
#include "harness/report/part_view.h"
#include "harness/report/step_laws.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

json compared(const std::vector<CellGroup>& groups, const CellGroup& group,
              const std::string& reference, std::string& problem) {
  const CellGroup* other = sibling(groups, group, reference);
  if (!other) {
    problem = "the plan has no " + reference + " cell to compare with";
    return nullptr;
  }
  json comparison = compare_steps(group, *other);
  if (comparison.is_null()) problem = "no round in which this cell and " + reference + " both ran";
  return comparison;
}

// What SyncBatchNorm costs, paired by round with the same cell without it.
void compare_with_local(json& cell, const std::vector<CellGroup>& groups, const CellGroup& group) {
  const CellGroup* local = with_local_statistics(groups, group);
  std::string problem;
  if (local == nullptr) problem = "the plan has no such cell with sync_batch_norm false";
  if (problem.empty() && cell["step_s"].is_null()) problem = "no time";
  if (problem.empty()) {
    cell["vs_local_statistics"] = compare_steps(group, *local);
    if (cell["vs_local_statistics"].is_null()) problem = "no round in which both ran";
  }
  if (!problem.empty()) set_unknown(cell, "vs_local_statistics", problem);
}

void add_comparisons(json& cell, const std::vector<CellGroup>& groups, const CellGroup& group) {
  std::string problem;
  if (cell["step_s"].is_null()) {
    problem = cell["null_reasons"].value("step_s", "no time");
  } else {
    cell["slowdown"] = compared(groups, group, kReferenceStrategy, problem);
  }
  if (!problem.empty()) set_unknown(cell, "slowdown", problem);

  if (group.cell.value("sync_batch_norm", false)) compare_with_local(cell, groups, group);

  // Whether a misplaced no_sync saves anything is a question about the baseline, so it is answered
  // by pairing with that, not by dividing two slowdowns.
  if (group.cell.value("strategy", "") != "no_sync_improper") return;
  problem = cell["step_s"].is_null() ? "no time" : "";
  if (problem.empty()) cell["vs_baseline"] = compared(groups, group, "baseline", problem);
  if (!problem.empty()) set_unknown(cell, "vs_baseline", problem);
}

}  // namespace

json build_result(const json& context, const json& plan,
                  const std::vector<results::TrialRecord>& trials,
                  const std::vector<SkippedCell>& skipped) {
  const auto groups = group_by_cell(plan, trials, skipped);
  json cells = json::array();
  for (const CellGroup& group : groups) {
    json cell = summarize_cell(context, group);
    add_comparisons(cell, groups, group);
    if (cell["step_s"].is_object()) {
      add_lower_bound(cell, context, groups, group);
    } else {
      set_unknown(cell, "lower_bound", cell["null_reasons"].value("step_s", "no time"));
    }
    cells.push_back(std::move(cell));
  }
  json result = {
      {"schema", kResultSchema}, {"context", context},    {"plan", plan},
      {"cells", cells},          {"laws", json::array()}, {"best", best_of_all(groups, cells)},
      {"exit_status", nullptr}};
  for (const PartView& part : parts_of(result)) {
    for (json& law : step_laws(part)) result["laws"].push_back(std::move(law));
  }
  return result;
}

}  // namespace gradsync::report
