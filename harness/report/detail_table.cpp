#include "harness/report/detail_table.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "harness/base/units.h"
#include "harness/report/columns.h"
#include "harness/report/row_names.h"
#include "harness/stats/launch_interval.h"
#include "harness/summary/timed_steps.h"

namespace gradsync::report {

using results::CellResult;

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
  std::string text = seconds_text(cell.step_s->mean, decimals);
  if (cell.step_s->sd) text += " ± " + seconds_text(*cell.step_s->sd, decimals);
  return text + unaccounted_text(cell);
}

bool is_reference(const CellResult& cell) {
  return cell.slowdown && cell.slowdown->vs == cell.cell.strategy();
}

// What s/step and slowdown are, and of how many steps.
std::string about_times(const PartView& part) {
  const TimedSteps timed = timed_steps(part);
  const std::string size = step_size_text(part);
  if (timed.steps.empty()) {
    return fmt::format("s/step = optimizer step of {}; no times (see below)", size);
  }
  std::string text = fmt::format(
      "s/step = optimizer step of {}, elapsed time of the slowest rank ± sd of its steps, {}", size,
      timed.text());
  if (timed.paired_launches.empty()) return text;
  text += ";\nslowdown = s/step over that of no_sync";
  if (*timed.paired_launches.rbegin() < stats::kFewestLaunches) return text;
  return text + fmt::format(", 95 % CI over {} launches", range_text(timed.paired_launches));
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
    if (cell.scale == 1 || !cell.collectives_per_step) continue;
    const double moved = moved_bytes(*cell.collectives_per_step);
    sizes[moved * cell.scale] =
        fmt::format("{} is {}", format_bytes(moved), format_bytes(moved * cell.scale));
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

Blocks detail_table(const PartView& part) {
  const RowNames names(part);
  const auto columns = detail_columns(part);
  const int decimals = part.decimals();
  auto heads = names.heads();
  heads.push_back({"s/step"});
  for (const Column& column : columns) heads.push_back({column.head});
  TextTable table(heads);
  for (std::size_t row = 0; row < part.cells.size(); ++row) {
    const CellResult& cell = part.cells[row];
    std::vector<std::string> texts = names.texts(row);
    if (is_reference(cell)) texts.back() += " (reference)";
    texts.push_back(step_with_spread(cell, decimals));
    for (const Column& column : columns) texts.push_back(text_of(column, cell, decimals));
    table.add_row(std::move(texts));
  }
  return {Prose{what_the_columns_mean(part, columns)}, table, Prose{full_sizes(part)}};
}

}  // namespace gradsync::report
