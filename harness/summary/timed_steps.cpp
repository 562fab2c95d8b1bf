#include "harness/summary/timed_steps.h"

#include <fmt/format.h>

namespace gradsync::summary {

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

std::string TimedSteps::paired_text() const {
  return range_text(paired_launches) + " launches";
}

void TimedSteps::count(const results::CellResult& cell) {
  if (!cell.is_timed()) return;
  steps.insert(cell.step_s->n);
  launches.insert(cell.launches);
  if (cell.slowdown) paired_launches.insert(cell.slowdown->launches);
}

}  // namespace gradsync::summary
