#include "harness/report/run_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/report/cell_group.h"
#include "harness/report/cell_summary.h"
#include "harness/report/context_difference.h"
#include "harness/report/launch_times.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

// One cell as both runs have it: entries of their results.
struct SharedCell {
  const json* a = nullptr;
  const json* b = nullptr;
};

struct Matching {
  std::vector<SharedCell> shared;
  std::vector<const json*> only_in_a;
  std::vector<const json*> only_in_b;
};

// Exact matches first, so that no cell is given away to one of another part.
Matching match_cells(const json& cells_a, const json& cells_b) {
  std::map<const json*, const json*> found;
  std::set<const json*> taken;
  for (const bool of_same_part : {true, false}) {
    for (const json& a : cells_a) {
      for (const json& b : cells_b) {
        if (found.contains(&a) || taken.contains(&b) || a["cell"] != b["cell"]) continue;
        if (of_same_part && a["part"] != b["part"]) continue;
        found[&a] = &b;
        taken.insert(&b);
      }
    }
  }
  Matching matching;
  for (const json& a : cells_a) {
    if (found.contains(&a)) matching.shared.push_back({&a, found[&a]});
    if (!found.contains(&a)) matching.only_in_a.push_back(&a);
  }
  for (const json& b : cells_b) {
    if (!taken.contains(&b)) matching.only_in_b.push_back(&b);
  }
  return matching;
}

// The mean steps of one cell of a run, by launch.
class Steps {
 public:
  explicit Steps(const FinishedRun& run)
      : groups_(group_by_cell(run.result["plan"], run.trials, {})) {}

  std::vector<double> of(const json& result_cell) const {
    for (const CellGroup& group : groups_) {
      if (group.part == result_cell["part"] && group.cell == result_cell["cell"]) {
        return launch_means(group);
      }
    }
    return {};
  }

 private:
  std::vector<CellGroup> groups_;
};

// Why the times of this cell must not be compared; "" where they may be.
std::string context_objection(const std::vector<ContextDifference>& differences, const json& cell) {
  std::set<std::string> fields;
  for (const ContextDifference& difference : differences) {
    if (difference.effect == Effect::ForbidsTimes && difference.concerns(cell)) {
      fields.insert(difference.field);
    }
  }
  if (fields.empty()) return "";
  return fmt::format("times do not compare: see {}", fmt::join(fields, ", "));
}

// Why one run has no time for this cell; "" where it has.
std::string missing_time(const char* run, const json& cell) {
  const std::string status = cell.value("status", "");
  if (status != "ok") return fmt::format("{} is {}: {}", run, status, cell.value("reason", ""));
  if (!cell["step_s"].is_null()) return "";
  return fmt::format("{}: {}", run, cell["null_reasons"].value("step_s", "no time"));
}

json side(const json& cell) {
  json out;
  for (const char* name : {"part", "status", "reason", "launches", "step_s", "slowdown",
                           "exposed_comm_s", "collectives_per_step"}) {
    out[name] = cell[name];
  }
  return out;
}

json ratio_to_json(const stats::Estimate& ratio, std::size_t launches_a, std::size_t launches_b) {
  std::string interval = "none: " + ratio.no_interval_because;
  if (ratio.interval) {
    interval = fmt::format("Student's t over {} launches of A and {} of B", launches_a, launches_b);
  }
  return {
      {"ratio", ratio.value}, {"ci95", interval_to_json(ratio.interval)}, {"interval", interval}};
}

// True, false, or null where one of the two is not known.
json same_collectives(const json& a, const json& b) {
  if (a.is_null() || b.is_null()) return nullptr;
  return a == b;
}

class Comparison {
 public:
  Comparison(const FinishedRun& a, const FinishedRun& b, double level)
      : level_(level),
        differences_(context_differences(a.result["context"], b.result["context"])),
        steps_a_(a),
        steps_b_(b) {}

  json cell(const SharedCell& shared) const {
    const json& a = *shared.a;
    const json& b = *shared.b;
    json out = {{"part", a["part"]},
                {"cell", a["cell"]},
                {"timing", a["timing"]},
                {"a", side(a)},
                {"b", side(b)},
                {"same_collectives",
                 same_collectives(a["collectives_per_step"], b["collectives_per_step"])},
                {"null_reasons", json::object()}};
    if (out["same_collectives"].is_null()) {
      set_unknown(out, "same_collectives", "a run does not know its collectives");
    }
    add_times(out, shared);
    return out;
  }

  json differences() const {
    json list = json::array();
    for (const ContextDifference& difference : differences_) {
      list.push_back(
          {{"field", difference.field},
           {"a", difference.a},
           {"b", difference.b},
           {"effect", to_string(difference.effect)},
           {"topology", difference.topology.empty() ? json() : json(difference.topology)},
           {"scale", difference.scale == 0 ? json() : json(difference.scale)}});
    }
    return list;
  }

 private:
  void add_times(json& out, const SharedCell& shared) const {
    const std::string objection = context_objection(differences_, out["cell"]);
    if (!objection.empty()) {
      for (const char* run : {"a", "b"}) {
        for (const char* name : {"step_s", "exposed_comm_s"}) out[run][name] = nullptr;
      }
      set_unknown(out, "step_ratio", objection);
      return;
    }
    std::string missing = missing_time("A", *shared.a);
    if (missing.empty()) missing = missing_time("B", *shared.b);
    const std::vector<double> a = steps_a_.of(*shared.a);
    const std::vector<double> b = steps_b_.of(*shared.b);
    if (missing.empty() && (a.empty() || b.empty())) {
      missing = "no block of steps has a time above 0";
    }
    if (!missing.empty()) {
      set_unknown(out, "step_ratio", missing);
      return;
    }
    out["step_ratio"] =
        ratio_to_json(stats::ratio_of_independent(b, a, level_), a.size(), b.size());
  }

  double level_;
  std::vector<ContextDifference> differences_;
  Steps steps_a_;
  Steps steps_b_;
};

json head_of(const FinishedRun& run) {
  const json& plan = run.result["plan"];
  return {{"directory", run.directory},
          {"context", run.result["context"]},
          {"plan", plan.is_object() ? plan.value("name", json()) : json()}};
}

json names_of(const std::vector<const json*>& cells) {
  json names = json::array();
  for (const json* cell : cells)
    names.push_back({{"part", (*cell)["part"]}, {"cell", (*cell)["cell"]}});
  return names;
}

}  // namespace

json compare_runs(const FinishedRun& a, const FinishedRun& b, double level) {
  const Comparison comparison(a, b, level);
  const Matching matching = match_cells(a.result["cells"], b.result["cells"]);
  json cells = json::array();
  for (const SharedCell& shared : matching.shared) cells.push_back(comparison.cell(shared));
  return {{"schema", kComparisonSchema},
          {"a", head_of(a)},
          {"b", head_of(b)},
          {"differences", comparison.differences()},
          {"cells", cells},
          {"only_in_a", names_of(matching.only_in_a)},
          {"only_in_b", names_of(matching.only_in_b)}};
}

}  // namespace gradsync::report
