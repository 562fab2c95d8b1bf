#include "harness/report/detail_table.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "harness/base/units.h"
#include "harness/report/collectives.h"
#include "harness/report/detail_columns.h"
#include "harness/report/labels.h"
#include "harness/report/text_table.h"
#include "harness/report/timed_steps.h"
#include "harness/report/topology_column.h"
#include "harness/stats/launch_interval.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

// More of a block's time than this in none of its steps is said in the row.
constexpr double kUnaccountedShare = 1e-3;

std::string unaccounted_text(const json& cell) {
  const json& unaccounted = cell.value("unaccounted_s", json());
  if (!unaccounted.is_number()) return "";
  const double share = unaccounted.get<double>() / cell["step_s"]["mean"].get<double>();
  if (share <= kUnaccountedShare) return "";
  return fmt::format(" ({:.1f} % in no step)", 100 * share);
}

std::string step_text(const json& cell, int decimals) {
  std::string status = cell.value("status", "");
  if (status != "ok") return status;
  const json& step = cell["step_s"];
  if (!step.is_object()) return "-";
  std::string text = seconds_text(step["mean"], decimals);
  if (!step["sd"].is_null()) text += " ± " + seconds_text(step["sd"], decimals);
  return text + unaccounted_text(cell);
}

std::string strategy_text(const json& cell) {
  const std::string label = strategy_label(cell["cell"].value("strategy", ""));
  const json& slowdown = cell["slowdown"];
  const bool itself = slowdown.is_object() && slowdown["vs"] == cell["cell"]["strategy"];
  return itself ? label + " (reference)" : label;
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

std::string what_the_columns_mean(const PartView& part, const std::vector<DetailColumn>& columns) {
  std::string text = about_times(part);
  std::string separator = "; ";  // each further clause has a line
  for (const DetailColumn& column : columns) {
    if (column.meaning.empty()) continue;
    text += separator + column.meaning;
    separator = ";\n";
  }
  return text + ".\n";
}

std::string full_sizes(const PartView& part) {
  std::map<double, std::string> sizes;  // by full size, so that the largest comes last
  std::set<int> scales;
  for (const json& cell : part.cells) {
    const int scale = cell.value("scale", 1);
    scales.insert(scale);
    if (scale == 1 || !cell["collectives_per_step"].is_object()) continue;
    const double moved = moved_bytes(cell["collectives_per_step"]);
    sizes[moved * scale] =
        fmt::format("{} is {}", format_bytes(moved), format_bytes(moved * scale));
  }
  if (sizes.empty()) return "";
  std::string text = scales.size() == 1
                         ? fmt::format("\nBytes and link rates are divided by {}", *scales.begin())
                         : std::string("\nBytes and link rates are divided by the scale");
  text += "; moved, at full size: ";
  std::string last;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (size->second == last) continue;  // alike in the digits that are shown
    text += (last.empty() ? "" : ", ") + size->second;
    last = size->second;
  }
  return text + ".\n";
}

TextTable empty_table(const std::vector<std::string>& varying,
                      const std::vector<DetailColumn>& columns) {
  std::vector<TextTable::Column> heads = {{"topology", Align::Left}};
  for (const std::string& name : varying) heads.push_back({name, Align::Left});
  heads.push_back({"strategy", Align::Left});
  heads.push_back({"s/step"});
  for (const DetailColumn& column : columns) heads.push_back({column.head});
  return TextTable(heads);
}

}  // namespace

std::string detail_table(const PartView& part) {
  const auto varying = part.varying_parameters();
  const auto columns = detail_columns(part);
  const int decimals = decimals_for(part.cells);
  TextTable table = empty_table(varying, columns);
  TopologyColumn topology(part);
  for (std::size_t row = 0; row < part.cells.size(); ++row) {
    const json& cell = part.cells[row];
    const bool ok = cell.value("status", "") == "ok";
    std::vector<std::string> texts = {topology.text(row)};
    for (const std::string& name : varying) texts.push_back(parameter_text(cell["cell"], name));
    texts.push_back(strategy_text(cell));
    texts.push_back(step_text(cell, decimals));
    for (const DetailColumn& column : columns) texts.push_back(ok ? column.text(cell) : "-");
    table.add_row(std::move(texts));
  }
  return what_the_columns_mean(part, columns) + "\n" + table.to_markdown() + full_sizes(part);
}

}  // namespace gradsync::report
