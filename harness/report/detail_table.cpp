#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/units.h"
#include "harness/report/cell_table.h"
#include "harness/report/columns.h"
#include "harness/stats/launch_interval.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using summary::CellView;
using summary::PartView;
using text::Prose;

namespace {

// More of a block's time than this in none of its steps is said in the row.
constexpr double kUnaccountedShare = 1e-3;

std::string unaccounted_text(const CellResult& cell) {
  if (!cell.unaccounted_s) return "";
  const double share = *cell.unaccounted_s / cell.step_s->mean;
  if (share <= kUnaccountedShare) return "";
  return fmt::format(" ({:.1f} % in no step)", 100 * share);
}

std::string step_with_spread(const CellResult& cell, int decimals) {
  if (!cell.is_ok()) return results::to_string(cell.status);
  if (!cell.step_s) return "-";
  std::string text = text::seconds_text(cell.step_s->mean, decimals);
  if (cell.step_s->sd) text += " ± " + text::seconds_text(*cell.step_s->sd, decimals);
  return text + unaccounted_text(cell);
}

std::string remark_on(const CellView& cell) {
  const bool is_reference = cell.slowdown && cell.slowdown->vs == cell.cell.strategy();
  return is_reference ? " (reference)" : "";
}

// What s/step and slowdown are, and of how many steps.
std::string about_times(const PartView& part) {
  const summary::TimedSteps& timed = part.timed;
  if (timed.steps.empty()) {
    return fmt::format("s/step = optimizer step of {}; no times (see below)", part.step_size);
  }
  std::string text = fmt::format(
      "s/step = optimizer step of {}, elapsed time of the slowest rank ± sd of its steps, {}",
      part.step_size, timed.text());
  if (timed.paired_launches.empty()) return text;
  text += ";\nslowdown = s/step over that of no_sync";
  if (*timed.paired_launches.rbegin() < stats::kFewestLaunches) return text;
  return text + fmt::format(", 95 % CI over {}", timed.paired_text());
}

std::string what_the_columns_mean(const PartView& part, const std::vector<Column>& columns) {
  std::string text = about_times(part);
  std::string separator = "; ";  // each further clause has a line
  for (const Column& column : columns) {
    if (column.meaning.empty()) continue;
    text += separator + column.meaning;
    separator = ";\n";
  }
  return text + ".\n";
}

std::string full_sizes(const PartView& part) {
  std::map<double, std::string> sizes;  // by full size, so that the largest comes last
  std::set<int> scales;
  for (const CellResult& cell : part.cells) {
    scales.insert(cell.scale);
    const auto moved = cell.moved_bytes();
    if (cell.scale == 1 || !moved) continue;
    sizes[*moved * cell.scale] =
        fmt::format("{} is {}", format_bytes(*moved), format_bytes(*moved * cell.scale));
  }
  if (sizes.empty()) return "";
  std::string text = scales.size() == 1
                         ? fmt::format("Bytes and link rates are divided by {}", *scales.begin())
                         : std::string("Bytes and link rates are divided by the scale");
  text += "; moved, at full size: ";
  std::string last;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (size->second == last) continue;  // alike in the digits that are shown
    text += (last.empty() ? "" : ", ") + size->second;
    last = size->second;
  }
  return text + ".\n";
}

}  // namespace

text::Blocks detail_table(const PartView& part) {
  const std::vector<Column> columns = detail_columns(part);
  const auto step = [&](const CellView& cell) { return step_with_spread(cell, part.decimals); };
  std::vector<CellColumn<CellView>> shown{{"s/step", step}};
  add_columns(shown, columns, part.decimals);
  return {Prose{what_the_columns_mean(part, columns)},
          cell_table<CellView>(part.cells, shown, remark_on), Prose{full_sizes(part)}};
}

using results::CellResult;

namespace {

bool has_bound(const CellResult& cell) {
  return cell.is_timed() && cell.lower_bound;
}

}  // namespace

text::Blocks spread_table(const summary::PartView& part) {
  if (std::ranges::none_of(part.cells, &CellResult::is_timed)) return {};
  std::vector<CellColumn<summary::CellView>> columns;
  add_columns(columns, spread_columns(), part.decimals);
  std::string head = "Single steps in seconds, each that of its slowest rank";
  if (std::ranges::any_of(part.cells, has_bound)) {
    add_columns(columns, bound_columns(), part.decimals);
    head += "; bound = what computation and the\nmeasured link take at least";
  }
  return {text::Prose{head + ":\n"}, cell_table(part.cells, columns)};
}

}  // namespace gradsync::report
