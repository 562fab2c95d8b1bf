#include "harness/report/detail_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/base/units.h"
#include "harness/report/collectives.h"
#include "harness/report/labels.h"
#include "harness/report/text_table.h"
#include "harness/report/timed_steps.h"
#include "harness/report/topology_column.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

// Where the cells' peaks differ by more than a hundredth: a column of equal numbers tells nothing.
// result.json has them all.
bool peaks_differ(const PartView& part) {
  std::set<double> peaks;
  for (const json& cell : part.cells) {
    const json& peak = cell["peak_allocated_bytes"];
    if (peak.is_number()) peaks.insert(peak.get<double>());
  }
  constexpr double kNotable = 1.01;
  return !peaks.empty() && *peaks.rbegin() > kNotable * *peaks.begin();
}

// Where steps hold different numbers of examples, their times do not compare.
bool steps_differ_in_size(const PartView& part) {
  const auto examples = [](const json& cell) {
    const json& step = cell["step_s"];
    const json sample = cell.value("sample_s", json());
    return step.is_object() && sample.is_object()
               ? std::lround(step["mean"].get<double>() / sample["mean"].get<double>())
               : 0;
  };
  std::set<long> numbers;
  for (const json& cell : part.cells) numbers.insert(examples(cell));
  numbers.erase(0);
  return numbers.size() > 1;
}

std::string sample_text(const json& cell) {
  const json sample = cell.value("sample_s", json());
  const bool known = cell.value("status", "") == "ok" && sample.is_object();
  return known ? fmt::format("{:.3f}", 1e3 * sample["mean"].get<double>()) : "-";
}

std::string step_text(const json& cell, int decimals) {
  std::string status = cell.value("status", "");
  if (status != "ok") return status;
  const json& step = cell["step_s"];
  if (!step.is_object()) return "-";
  if (step["sd"].is_null()) return seconds_text(step["mean"], decimals);
  return seconds_text(step["mean"], decimals) + " ± " + seconds_text(step["sd"], decimals);
}

std::string strategy_text(const json& cell) {
  const std::string label = strategy_label(cell["cell"].value("strategy", ""));
  const json& slowdown = cell["slowdown"];
  const bool itself = slowdown.is_object() && slowdown["vs"] == cell["cell"]["strategy"];
  return itself ? label + " (reference)" : label;
}

// Columns that only some tables have.
struct Columns {
  bool samples = false;
  bool peaks = false;
};

// A cell of which a trial failed keeps its numbers in result.json; a table must not print them as
// if all had gone well.
std::vector<std::string> numbers_of(const json& cell, const std::vector<std::string>& ops,
                                    const Columns& columns, int decimals) {
  const bool ok = cell.value("status", "") == "ok";
  const json& exposed = cell["exposed_comm_s"];
  const json& counts = cell["collectives_per_step"];
  std::vector<std::string> texts = {step_text(cell, decimals)};
  if (columns.samples) texts.push_back(sample_text(cell));
  texts.push_back(ok ? ratio_text(cell["slowdown"]) : "-");
  texts.push_back(ok && exposed.is_number() ? seconds_text(exposed, decimals) + " s" : "-");
  for (const std::string& op : ops) texts.push_back(ok ? count_text(counts, op) : "-");
  texts.push_back(ok && counts.is_object() ? format_bytes(moved_bytes(cell["collectives_per_step"]))
                                           : "-");
  if (columns.peaks) {
    const json& peak = cell["peak_allocated_bytes"];
    texts.push_back(ok && peak.is_number() ? format_bytes(peak.get<double>()) : "-");
  }
  return texts;
}

std::string what_the_columns_mean(const PartView& part) {
  const TimedSteps timed = timed_steps(part);
  const std::string size = step_size_text(part);
  if (timed.steps.empty())
    return fmt::format("s/step = optimizer step of {}; no times (see below).\n", size);
  std::string text = fmt::format("s/step = optimizer step of {}, slowest rank, mean ± sd over {}",
                                 size, timed.text());
  if (timed.pairs == std::set<std::size_t>{1}) {
    text += ";\nslowdown vs no_sync, of one pair of blocks";
  } else if (!timed.pairs.empty()) {
    text += fmt::format(";\nslowdown vs no_sync, paired by round, 95 % CI over {} pairs",
                        range_text(timed.pairs));
  }
  if (steps_differ_in_size(part)) text += ";\nms/sample = that over the examples of all ranks";
  return text + "; moved = bytes of all collectives, per rank and step.\n";
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
  bool first = true;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    text += (first ? "" : ", ") + size->second;
    first = false;
  }
  return text + ".\n";
}

TextTable empty_table(const std::vector<std::string>& varying, const std::vector<std::string>& ops,
                      const Columns& optional) {
  std::vector<TextTable::Column> columns = {{"topology", Align::Left}};
  for (const std::string& name : varying) columns.push_back({name, Align::Left});
  columns.push_back({"strategy", Align::Left});
  columns.push_back({"s/step"});
  if (optional.samples) columns.push_back({"ms/sample"});
  for (const char* head : {"slowdown", "exposed"}) columns.push_back({head});
  for (const std::string& op : ops) columns.push_back({op});
  columns.push_back({"moved"});
  if (optional.peaks) columns.push_back({"peak alloc."});
  return TextTable(columns);
}

}  // namespace

std::string detail_table(const PartView& part) {
  const auto varying = part.varying_parameters();
  const auto ops = counted_ops(part.cells);
  const Columns optional{steps_differ_in_size(part), peaks_differ(part)};
  const int decimals = decimals_for(part.cells);
  TextTable table = empty_table(varying, ops, optional);
  TopologyColumn topology(part);
  for (std::size_t row = 0; row < part.cells.size(); ++row) {
    const json& cell = part.cells[row];
    std::vector<std::string> texts = {topology.text(row)};
    for (const std::string& name : varying) texts.push_back(setting_text(cell["cell"], name));
    texts.push_back(strategy_text(cell));
    for (std::string& text : numbers_of(cell, ops, optional, decimals))
      texts.push_back(std::move(text));
    table.add_row(std::move(texts));
  }
  return what_the_columns_mean(part) + "\n" + table.to_markdown() + full_sizes(part);
}

}  // namespace gradsync::report
