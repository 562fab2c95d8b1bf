#include "harness/summary/timed_steps.h"

#include <fmt/format.h>

#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;

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
  for (const CellResult& cell : part.cells) {
    if (!cell.is_timed()) continue;
    timed.steps.insert(cell.step_s->n);
    timed.launches.insert(cell.launches);
    if (cell.slowdown) timed.paired_launches.insert(cell.slowdown->launches);
  }
  return timed;
}

std::string step_size_text(const PartView& part) {
  std::set<int> accumulation;
  for (const CellResult& cell : part.cells) accumulation.insert(cell.cell.accumulation_steps());
  if (accumulation.size() != 1) return "accumulation_steps micro-batches";
  return counted(static_cast<std::size_t>(*accumulation.begin()), "micro-batch", "micro-batches");
}

}  // namespace gradsync::report
