#include "harness/summary/run_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/results/result_fields.h"
#include "harness/summary/cell_group.h"
#include "harness/summary/comparison.h"
#include "harness/summary/launch_times.h"
#include "harness/summary/plan_source.h"

namespace gradsync::summary {

using nlohmann::json;
using results::CellResult;
using results::OpCounts;
using results::Parameters;
using results::StepRatio;
using results::StepTimes;

// What a comparison's file has of either side of a cell; the reasons are in that run's result.
struct ComparedSide {
  std::string part;
  results::Status status = results::Status::Ok;
  std::string reason;
  std::size_t launches = 0;
  std::optional<StepTimes> step_s;
  std::optional<StepRatio> slowdown;
  std::optional<double> exposed_comm_s;
  std::optional<OpCounts> collectives_per_step;
};

namespace {

template <typename Value>
std::optional<Value> or_nothing(const Known<Value>& value) {
  return value ? std::optional(*value) : std::nullopt;
}

ComparedSide side_of(const CellResult& cell) {
  return {.part = cell.part,
          .status = cell.status,
          .reason = cell.reason,
          .launches = cell.launches,
          .step_s = or_nothing(cell.step_s),
          .slowdown = or_nothing(cell.slowdown),
          .exposed_comm_s = or_nothing(cell.exposed_comm_s),
          .collectives_per_step = or_nothing(cell.collectives_per_step)};
}

}  // namespace

constexpr auto names_of(const EffectOnTimes*) {
  return std::to_array<std::pair<EffectOnTimes, const char*>>(
      {{EffectOnTimes::ForbidsTimes, "forbids_times"},
       {EffectOnTimes::Warns, "warns"},
       {EffectOnTimes::None, "none"}});
}

GRADSYNC_FIELDS_OF(ContextDifference, field, a, b, effect, topology, scale)
GRADSYNC_FIELDS_OF(ComparedRun, directory, context, plan)
GRADSYNC_FIELDS_OF(ComparedSide, part, status, reason, launches, step_s, slowdown, exposed_comm_s,
                   collectives_per_step)

constexpr auto fields_of(const ComparedCell*) {
  return std::tuple{GRADSYNC_FIELDS(ComparedCell, part, cell, timing, same_collectives, step_ratio),
                    computed(
                        "a", +[](const ComparedCell& cell) { return side_of(cell.a); }),
                    computed(
                        "b", +[](const ComparedCell& cell) { return side_of(cell.b); })};
}

GRADSYNC_FIELDS_OF(LonelyCell, part, cell)

constexpr auto fields_of(const RunComparison*) {
  return std::tuple{constant("schema", kComparisonSchema),
                    GRADSYNC_FIELDS(RunComparison, a, b, differences, cells, only_in_a, only_in_b)};
}

namespace {

// One cell as both runs have it: entries of their results.
struct SharedCell {
  const CellResult* a = nullptr;
  const CellResult* b = nullptr;
};

struct Matching {
  std::vector<SharedCell> shared;
  std::vector<LonelyCell> only_in_a;
  std::vector<LonelyCell> only_in_b;
};

// Exact matches first, so that no cell is given away to one of another part.
Matching match_cells(const std::vector<CellResult>& cells_a,
                     const std::vector<CellResult>& cells_b) {
  std::map<const CellResult*, const CellResult*> found;
  std::set<const CellResult*> taken;
  for (const bool of_same_part : {true, false}) {
    for (const CellResult& a : cells_a) {
      for (const CellResult& b : cells_b) {
        if (found.contains(&a) || taken.contains(&b) || a.cell != b.cell) continue;
        if (of_same_part && a.part != b.part) continue;
        found[&a] = &b;
        taken.insert(&b);
      }
    }
  }
  Matching matching;
  for (const CellResult& a : cells_a) {
    if (found.contains(&a)) matching.shared.push_back({&a, found[&a]});
    if (!found.contains(&a)) matching.only_in_a.push_back({a.part, a.cell});
  }
  for (const CellResult& b : cells_b) {
    if (!taken.contains(&b)) matching.only_in_b.push_back({b.part, b.cell});
  }
  return matching;
}

// Returns the mean steps of one cell of a run, by launch.
std::vector<double> steps_of(const std::vector<CellGroup>& groups, const CellResult& cell) {
  const CellGroup* group = find_group(groups, cell.part, cell.cell);
  return group == nullptr ? std::vector<double>{} : launch_means(*group);
}

// Why the times of this cell must not be compared; "" where they may be.
std::string context_objection(const std::vector<ContextDifference>& differences,
                              const Parameters& cell) {
  std::set<std::string> fields;
  for (const ContextDifference& difference : differences) {
    if (difference.effect == EffectOnTimes::ForbidsTimes && difference.concerns(cell)) {
      fields.insert(difference.field);
    }
  }
  if (fields.empty()) return "";
  return fmt::format("times do not compare: see {}", fmt::join(fields, ", "));
}

// Why one run has no time for this cell; "" where it has.
std::string missing_time(const char* run, const CellResult& cell) {
  if (!cell.is_ok()) {
    return fmt::format("{} is {}: {}", run, results::to_string(cell.status), cell.reason);
  }
  return cell.step_s ? "" : fmt::format("{}: {}", run, cell.step_s.why_not());
}

results::Ratio ratio_of(const stats::Estimate& estimate, std::size_t launches_a,
                        std::size_t launches_b) {
  results::Ratio ratio{estimate.value, estimate.interval, "none: " + estimate.no_interval_because};
  if (estimate.interval) {
    ratio.interval =
        fmt::format("Student's t over {} launches of A and {} of B", launches_a, launches_b);
  }
  return ratio;
}

Known<bool> same_collectives(const CellResult& a, const CellResult& b) {
  if (!a.collectives_per_step || !b.collectives_per_step) {
    return Unknown{"a run does not know its collectives"};
  }
  return *a.collectives_per_step == *b.collectives_per_step;
}

class Comparer {
 public:
  Comparer(const FinishedRun& a, const FinishedRun& b, double level)
      : level_(level),
        differences_(context_differences(a.result.context.written, b.result.context.written)),
        groups_a_(group_by_cell(a.result.plan, a.trials, {})),
        groups_b_(group_by_cell(b.result.plan, b.trials, {})) {}

  ComparedCell cell(const SharedCell& shared) const {
    ComparedCell out;
    out.part = shared.a->part;
    out.cell = shared.a->cell;
    out.timing = shared.a->timing;
    out.a = *shared.a;
    out.b = *shared.b;
    out.same_collectives = same_collectives(*shared.a, *shared.b);
    if (const std::string why = context_objection(differences_, out.cell); !why.empty()) {
      out.step_ratio = Unknown{why};
      for (CellResult* side : {&out.a, &out.b}) {
        side->step_s = Unknown{why};
        side->exposed_comm_s = Unknown{why};
      }
    } else {
      out.step_ratio = step_ratio(shared);
    }
    return out;
  }

  const std::vector<ContextDifference>& differences() const { return differences_; }

 private:
  Known<results::Ratio> step_ratio(const SharedCell& shared) const {
    for (const auto& [run, cell] : {std::pair{"A", shared.a}, std::pair{"B", shared.b}}) {
      if (std::string why = missing_time(run, *cell); !why.empty()) return Unknown{why};
    }
    const std::vector<double> a = steps_of(groups_a_, *shared.a);
    const std::vector<double> b = steps_of(groups_b_, *shared.b);
    if (a.empty() || b.empty()) return Unknown{"no block of steps has a time above 0"};
    return ratio_of(stats::ratio_of_independent(b, a, level_), a.size(), b.size());
  }

  double level_;
  std::vector<ContextDifference> differences_;
  std::vector<CellGroup> groups_a_;
  std::vector<CellGroup> groups_b_;
};

ComparedRun head_of(const FinishedRun& run) {
  return {run.directory, run.result.context, name_of_plan(run.result.plan)};
}

}  // namespace

std::string to_string(EffectOnTimes effect) {
  return name_of(effect);
}

void to_json(json& out, const RunComparison& comparison) {
  out = write_fields(comparison);
}

void to_json(json& out, const ContextDifference& difference) {
  out = write_fields(difference);
}

RunComparison compare_runs(const FinishedRun& a, const FinishedRun& b, double level) {
  const Comparer comparer(a, b, level);
  Matching matching = match_cells(a.result.cells, b.result.cells);
  RunComparison comparison;
  comparison.a = head_of(a);
  comparison.b = head_of(b);
  comparison.differences = comparer.differences();
  comparison.only_in_a = std::move(matching.only_in_a);
  comparison.only_in_b = std::move(matching.only_in_b);
  for (const SharedCell& shared : matching.shared) {
    comparison.cells.push_back(comparer.cell(shared));
  }
  return comparison;
}

}  // namespace gradsync::summary
