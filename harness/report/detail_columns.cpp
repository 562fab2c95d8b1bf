#include "harness/report/detail_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/units.h"
#include "harness/report/collectives.h"
#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

bool any(const PartView& part, const std::function<bool(const json& cell)>& is_so) {
  return std::ranges::any_of(part.cells, is_so);
}

// A number inside of an object of the cell; null where there is none.
json number_in(const json& cell, const char* field, const char* name) {
  const json object = cell.value(field, json());
  return object.is_object() ? object.value(name, json()) : json();
}

// Where steps hold different numbers of examples, their times do not compare.
bool steps_differ_in_size(const PartView& part) {
  std::set<long> examples;
  for (const json& cell : part.cells) {
    const json step = number_in(cell, "step_s", "mean");
    const json sample = number_in(cell, "sample_s", "mean");
    if (!step.is_number() || !sample.is_number()) continue;
    examples.insert(std::lround(step.get<double>() / sample.get<double>()));
  }
  return examples.size() > 1;
}

DetailColumn sample_column() {
  const auto text = [](const json& cell) -> std::string {
    const json mean = number_in(cell, "sample_s", "mean");
    return mean.is_number() ? fmt::format("{:.3f}", 1e3 * mean.get<double>()) : "-";
  };
  return {"ms/sample", text, "ms/sample = s/step over the examples of all ranks"};
}

DetailColumn exposed_column(int decimals) {
  const auto text = [decimals](const json& cell) {
    const json& exposed = cell["exposed_comm_s"];
    return exposed.is_number() ? seconds_text(exposed, decimals) + " s" : "-";
  };
  return {"exposed", text, ""};
}

DetailColumn idle_column() {
  const auto text = [](const json& cell) -> std::string {
    const json share = number_in(cell, "idle_share", "mean");
    return share.is_number() ? fmt::format("{:.1f} %", 100 * share.get<double>()) : "-";
  };
  return {"idle", text,
          "idle = share of a step in which a rank has nothing to compute, mean over the ranks"};
}

DetailColumn moved_column() {
  const auto text = [](const json& cell) {
    const json& counts = cell["collectives_per_step"];
    return counts.is_object() ? format_bytes(moved_bytes(counts)) : "-";
  };
  return {"moved", text, "moved = bytes of all collectives, per rank and step"};
}

// "0" only where it is 0.
DetailColumn distance_column(std::size_t steps) {
  const auto text = [](const json& cell) -> std::string {
    const json last = number_in(cell, "parameter_distance", "last");
    if (!last.is_number()) return "-";
    return last == 0 ? "0" : fmt::format("{:.1e}", last.get<double>());
  };
  return {"distance", text,
          fmt::format("distance = |p - q| / |q| of a rank's parameters p and rank 0's q, {} from a "
                      "common start",
                      counted(steps, "step", "steps"))};
}

// Steps after which the ranks' parameters were compared; 0: in no cell.
std::size_t distance_steps(const PartView& part) {
  for (const json& cell : part.cells) {
    if (!number_in(cell, "parameter_distance", "last").is_number()) continue;
    return cell["parameter_distance"]["after_step"].size();
  }
  return 0;
}

// Where the cells' peaks differ by more than a hundredth: a column of equal numbers tells nothing.
bool peaks_differ(const PartView& part) {
  std::set<double> peaks;
  for (const json& cell : part.cells) {
    const json& peak = cell["peak_allocated_bytes"];
    if (peak.is_number()) peaks.insert(peak.get<double>());
  }
  constexpr double kNotable = 1.01;
  return !peaks.empty() && *peaks.rbegin() > kNotable * *peaks.begin();
}

DetailColumn peak_column() {
  const auto text = [](const json& cell) -> std::string {
    const json& peak = cell["peak_allocated_bytes"];
    return peak.is_number() ? format_bytes(peak.get<double>()) : "-";
  };
  return {"peak alloc.", text, ""};
}

DetailColumn vs_local_column() {
  const auto text = [](const json& cell) {
    return ratio_text(cell.value("vs_local_statistics", json()));
  };
  return {"vs local", text, "vs local = s/step over that of the same row without SyncBatchNorm"};
}

// How far the ranks' running statistics are apart: two columns, explained with the second.
DetailColumn apart_column(const char* head, const char* field, const char* unit,
                          const char* meaning) {
  const auto text = [field, unit](const json& cell) -> std::string {
    const json apart = number_in(cell, "running_statistics", field);
    return apart.is_number() ? fmt::format("{:.2f}{}", apart.get<double>(), unit) : "-";
  };
  return {head, text, meaning};
}

}  // namespace

std::vector<DetailColumn> detail_columns(const PartView& part) {
  std::vector<DetailColumn> columns;
  if (steps_differ_in_size(part)) columns.push_back(sample_column());
  columns.push_back(
      {"slowdown", [](const json& cell) { return ratio_text(cell["slowdown"]); }, ""});
  columns.push_back(exposed_column(decimals_for(part.cells)));
  if (any(part, [](const json& cell) { return is_on_the_road(cell["cell"]); })) {
    columns.push_back(idle_column());
  }
  for (const std::string& op : counted_ops(part.cells)) {
    const auto count = [op](const json& cell) {
      return count_text(cell["collectives_per_step"], op);
    };
    columns.push_back({op, count, ""});
  }
  columns.push_back(moved_column());
  if (const auto steps = distance_steps(part); steps > 0) columns.push_back(distance_column(steps));
  if (peaks_differ(part)) columns.push_back(peak_column());
  if (any(part, [](const json& cell) { return cell.contains("vs_local_statistics"); })) {
    columns.push_back(vs_local_column());
  }
  if (any(part, [](const json& cell) { return cell.contains("running_statistics"); })) {
    columns.push_back(apart_column("means apart", "mean_gap", " sd", ""));
    columns.push_back(
        apart_column("variances apart", "variance_ratio", "x",
                     "apart = between ranks' running statistics after a trial, in the widest "
                     "channel"));
  }
  return columns;
}

}  // namespace gradsync::report
