#include "harness/report/memory_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/base/units.h"
#include "harness/report/labels.h"
#include "harness/report/memory_table.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

bool has_peak(const json& cell) {
  return cell.value("status", "") == "ok" && cell["peak_allocated_bytes"].is_number();
}

bool ran_out(const json& cell) {
  return cell.value("status", "") == "oom";
}

double peak_of(const json& cell) {
  return cell["peak_allocated_bytes"].get<double>();
}

std::string strategy_of(const json& cell) {
  return cell["cell"].value("strategy", "");
}

// "At accumulation 16, FULL_SHARD, param_dtype bfloat16": what tells this setting from the others.
std::string place_text(const PartView& part, const json& setting) {
  const json& cell = setting["cell"];
  std::string text = "At accumulation " + plain_text(cell["accumulation_steps"]);
  if (part.several_topologies()) text += ", " + topology_label(part.context, setting).text();
  for (const std::string& name : part.varying_parameters()) {
    if (name == "accumulation_steps" || name == "wrapper") continue;
    if (name == "reshard_after_forward") {
      text += ", " + sharding_label(cell);
    } else if (name != "memory_budget_bytes") {
      text += fmt::format(", {} {}", name, parameter_text(cell, name));
    }
  }
  return text;
}

// "costs 1.77x [1.70, 1.84] the time of no_sync"; "" without times.
std::string time_clause(const json& slowdown) {
  if (!slowdown.is_object()) return "";
  const std::string ratio = ratio_text(slowdown);
  if (!slowdown["ci95"].is_array()) {
    return fmt::format("took {} the time of no_sync, in {},", ratio, launches_that_ran(slowdown));
  }
  if (!told_apart(slowdown))
    return fmt::format("costs no time that could be told apart ({})", ratio);
  const bool slower = slowdown["ratio"].get<double>() > 1;
  return fmt::format("{} {} the time of no_sync", slower ? "costs" : "takes", ratio);
}

// "saves 34.6 MiB (298.8 MiB for 333.4 MiB)", or what is true instead.
std::string memory_clause(double each, double none) {
  if (each == none) return fmt::format("peaks at the same {}", format_bytes(each));
  return fmt::format("{} {}{} ({} against {})", each < none ? "saves" : "holds",
                     format_bytes(std::abs(none - each)), each < none ? "" : " more",
                     format_bytes(each), format_bytes(none));
}

std::string both_ran(const json& each, const json& none) {
  const std::string memory = memory_clause(peak_of(each), peak_of(none));
  const std::string time = time_clause(each["slowdown"]);
  return "sync_each_batch " + (time.empty() ? "" : time + " and ") + memory;
}

std::string out_of_what(const json& cell) {
  const auto budget = cell["cell"].find("memory_budget_bytes");
  std::string text = budget == cell["cell"].end()
                         ? "memory"
                         : "a budget of " + format_bytes(budget->get<double>());
  if (const auto place = oom_place(cell)) {
    text += fmt::format(" in the {} of micro-batch {}", place->phase, place->micro_batch);
  }
  return text;
}

std::string one_ran_out(const json& out, const json& fits) {
  return fmt::format("{} runs out of {}; {} fits, with a peak of {}", strategy_of(out),
                     out_of_what(out), strategy_of(fits), format_bytes(peak_of(fits)));
}

std::string sentence(const json& each, const json& none) {
  if (has_peak(each) && has_peak(none)) return both_ran(each, none);
  if (ran_out(none) && has_peak(each)) return one_ran_out(none, each);
  if (ran_out(each) && has_peak(none)) return one_ran_out(each, none);
  if (ran_out(each) && ran_out(none)) return "both run out of " + out_of_what(none);
  return "";
}

}  // namespace

std::string memory_findings(const PartView& part) {
  std::string text;
  for (const json& setting : settings_of(grouped_by_sharding(part))) {
    const json& cell = setting["cell"];
    if (cell.value("wrapper", "") != "fsdp" || cell.value("accumulation_steps", 1) < 2) continue;
    const json* each = find_strategy(part, setting, "sync_each_batch");
    const json* none = find_strategy(part, setting, "no_sync");
    if (each == nullptr || none == nullptr) continue;
    const std::string found = sentence(*each, *none);
    if (!found.empty()) text += place_text(part, setting) + ", " + found + ".\n";
  }
  return text;
}

}  // namespace gradsync::report
