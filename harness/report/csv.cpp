#include "harness/report/csv.h"

#include <set>
#include <vector>

#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

struct Column {
  const char* head;
  const char* pointer;  // JSON pointer inside a cell of result.json
};

constexpr Column kColumns[] = {
    {"status", "/status"},
    {"reason", "/reason"},
    {"timing", "/timing"},
    {"launches", "/launches"},
    {"blocks", "/blocks"},
    {"step_mean_s", "/step_s/mean"},
    {"step_median_s", "/step_s/median"},
    {"step_sd_s", "/step_s/sd"},
    {"step_p5_s", "/step_s/p5"},
    {"step_p95_s", "/step_s/p95"},
    {"step_max_s", "/step_s/max"},
    {"step_ci95_lo_s", "/step_s/ci95/0"},
    {"step_ci95_hi_s", "/step_s/ci95/1"},
    {"steps", "/step_s/n"},
    {"slowdown_vs_no_sync", "/slowdown/ratio"},
    {"slowdown_ci95_lo", "/slowdown/ci95/0"},
    {"slowdown_ci95_hi", "/slowdown/ci95/1"},
    {"exposed_comm_s", "/exposed_comm_s"},
    {"unaccounted_s", "/unaccounted_s"},
    {"lower_bound_s", "/lower_bound/step_s"},
    {"step_over_bound", "/lower_bound/step_over_bound"},
    {"idle_share", "/idle_share/mean"},
    {"parameter_distance", "/parameter_distance/last"},
    {"all_reduce_count", "/collectives_per_step/all_reduce/count"},
    {"all_reduce_bytes", "/collectives_per_step/all_reduce/bytes"},
    {"reduce_scatter_count", "/collectives_per_step/reduce_scatter/count"},
    {"reduce_scatter_bytes", "/collectives_per_step/reduce_scatter/bytes"},
    {"all_gather_count", "/collectives_per_step/all_gather/count"},
    {"all_gather_bytes", "/collectives_per_step/all_gather/bytes"},
    {"peak_allocated_bytes", "/peak_allocated_bytes"},
    {"peak_reserved_bytes", "/peak_reserved_bytes"},
    {"peak_reserved_estimate_bytes", "/peak_reserved_estimate_bytes"},
    {"predicted_peak_allocated_bytes", "/predicted_peak_allocated_bytes"},
    {"running_mean_gap", "/running_statistics/mean_gap"},
    {"running_variance_ratio", "/running_statistics/variance_ratio"},
    {"step_vs_local_statistics", "/vs_local_statistics/ratio"},
};

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string field_at(const json& cell, const json::json_pointer& pointer) {
  if (!cell.contains(pointer) || cell.at(pointer).is_null()) return "";
  return quoted(plain_text(cell.at(pointer)));
}

}  // namespace

std::string result_csv(const json& result) {
  std::set<std::string> parameters;
  for (const json& cell : result["cells"]) {
    for (const auto& [name, value] : cell["cell"].items()) parameters.insert(name);
  }
  std::string text = "part";
  for (const std::string& name : parameters) text += "," + quoted(name);
  for (const Column& column : kColumns) text += std::string(",") + column.head;
  text += "\r\n";
  for (const json& cell : result["cells"]) {
    text += quoted(cell.value("part", ""));
    for (const std::string& name : parameters) {
      text += "," + quoted(cell["cell"].contains(name) ? plain_text(cell["cell"][name]) : "");
    }
    for (const Column& column : kColumns) {
      text += "," + field_at(cell, json::json_pointer(column.pointer));
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace gradsync::report
