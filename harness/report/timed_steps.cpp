#include "harness/report/timed_steps.h"

#include <fmt/format.h>

#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

std::string range_text(const std::set<std::size_t>& counts) {
  if (counts.empty()) return "0";
  if (counts.size() == 1) return std::to_string(*counts.begin());
  return fmt::format("{} to {}", *counts.begin(), *counts.rbegin());
}

std::string TimedSteps::text() const {
  return fmt::format(
      "{} steps in {}", range_text(steps),
      launches == std::set<std::size_t>{1} ? "1 launch" : range_text(launches) + " launches");
}

TimedSteps timed_steps(const PartView& part) {
  TimedSteps timed;
  for (const json& cell : part.cells) {
    if (cell.value("status", "") != "ok" || !cell["step_s"].is_object()) continue;
    timed.steps.insert(cell["step_s"]["n"].get<std::size_t>());
    timed.launches.insert(cell["launches"].get<std::size_t>());
    if (cell["slowdown"].is_object()) {
      timed.paired_launches.insert(cell["slowdown"]["launches"].get<std::size_t>());
    }
  }
  return timed;
}

std::string step_size_text(const PartView& part) {
  std::set<std::size_t> accumulation;
  for (const json& cell : part.cells) {
    accumulation.insert(cell["cell"].value("accumulation_steps", std::size_t{1}));
  }
  return accumulation.size() == 1 ? counted(*accumulation.begin(), "micro-batch", "micro-batches")
                                  : "accumulation_steps micro-batches";
}

}  // namespace gradsync::report
