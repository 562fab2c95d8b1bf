#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/base/units.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

using results::CellResult;
using summary::CellView;
using summary::PartView;
using text::Align;
using text::TextTable;

namespace {

constexpr const char* kSharding = "reshard_after_forward";
constexpr const char* kAccumulation = "accumulation_steps";
constexpr const char* kBudget = "memory_budget_bytes";

bool has_budget(const CellResult& cell) {
  return cell.cell.has(kBudget);
}

std::optional<double> bytes_of(const Known<std::int64_t>& bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

std::optional<double> peak_of(const CellResult& cell) {
  return cell.is_ok() ? bytes_of(cell.peak_allocated_bytes) : std::nullopt;
}

std::optional<double> predicted_peak_of(const CellResult& cell) {
  return bytes_of(cell.predicted_peak_allocated_bytes);
}

std::string bytes_text(const std::optional<double>& bytes) {
  return text::text_or_dash(bytes, format_bytes);
}

std::string budget_text(const CellView& cell) {
  const auto budget = cell.cell.memory_budget_bytes();
  return budget ? format_bytes(*budget) : "none";
}

std::string step_text(const CellResult& cell, int decimals) {
  return cell.is_timed() ? text::seconds_text(cell.step_s->mean, decimals) : "-";
}

struct MemoryColumn {
  std::string head;
  Align align;
  std::function<std::string(const CellView& cell)> text;
  bool blank_if_repeated =
      false;  // blank where the row above, and all before it in the row, is the same
};

std::function<std::string(const CellView& cell)> text_of(const PartView& part,
                                                         const std::string& parameter) {
  if (parameter == kBudget) return budget_text;
  const auto place = std::ranges::find(part.varying, parameter) - part.varying.begin();
  return [place](const CellView& cell) { return cell.name.varying[std::size_t(place)].text; };
}

// What tells rows apart, from what varies least to what varies most.
std::vector<MemoryColumn> naming_columns(const PartView& part) {
  std::vector<MemoryColumn> columns;
  if (part.several_topologies) {
    const auto where = [](const CellView& cell) { return cell.name.topology.text(); };
    columns.push_back({"topology", Align::Left, where, true});
  }
  if (part.varies(kSharding) || part.varies("wrapper")) {
    const auto sharding = [](const CellView& cell) { return cell.name.sharding; };
    columns.push_back({"sharding", Align::Left, sharding, true});
  }
  for (const std::string& name : part.varying) {
    if (name == kSharding || name == "wrapper" || name == kAccumulation) continue;
    columns.push_back({name == kBudget ? "budget" : name, Align::Left, text_of(part, name)});
  }
  if (part.varies(kAccumulation)) {
    columns.push_back({"accum", Align::Right, text_of(part, kAccumulation)});
  }
  const auto strategy = [](const CellView& cell) { return cell.name.strategy; };
  columns.push_back({"strategy", Align::Left, strategy});
  return columns;
}

// The rows of a topology and sharding together; otherwise as they were.
std::vector<const CellView*> by_sharding(const PartView& part) {
  std::vector<const CellView*> rows;
  for (const CellView& cell : part.cells) rows.push_back(&cell);
  std::ranges::stable_sort(rows, {}, &CellView::sharding_group);
  return rows;
}

bool any_of(const PartView& part, const std::function<bool(const CellResult& cell)>& holds) {
  return std::ranges::any_of(part.cells, holds);
}

bool has_predictions(const PartView& part) {
  return any_of(part, [](const CellResult& cell) { return predicted_peak_of(cell).has_value(); });
}

bool offloads(const PartView& part) {
  return any_of(part, [](const CellResult& cell) {
    return cell.is_ok() && cell.host_peak_allocated_bytes.has_value();
  });
}

std::string host_peak_text(const CellResult& cell) {
  if (!cell.is_ok() || !cell.host_peak_allocated_bytes) return "-";
  return format_bytes(static_cast<double>(*cell.host_peak_allocated_bytes));
}

bool has_verdicts(const PartView& part) {
  return any_of(part, [](const CellResult& cell) { return has_budget(cell) || !cell.is_ok(); });
}

std::vector<MemoryColumn> columns_of(const PartView& part) {
  std::vector<MemoryColumn> columns = naming_columns(part);
  if (!part.timed.steps.empty()) {
    const auto step = [decimals = part.decimals](const CellView& cell) {
      return step_text(cell, decimals);
    };
    columns.push_back({"s/step", Align::Right, step});
  }
  const auto peak = [](const CellResult& cell) { return bytes_text(peak_of(cell)); };
  columns.push_back({"peak alloc.", Align::Right, peak});
  if (has_predictions(part)) {
    const auto predicted = [](const CellResult& cell) {
      return bytes_text(predicted_peak_of(cell));
    };
    columns.push_back({"predicted", Align::Right, predicted});
  }
  if (offloads(part)) columns.push_back({"host peak", Align::Right, host_peak_text});
  if (has_verdicts(part)) columns.push_back({"result", Align::Left, verdict_text});
  return columns;
}

// How close the predictions came, over the rows that have both.
std::string prediction_text(const PartView& part) {
  std::size_t compared = 0;
  std::size_t exact = 0;
  double furthest = 0;
  for (const CellResult& cell : part.cells) {
    const auto peak = peak_of(cell);
    const auto predicted = predicted_peak_of(cell);
    if (!peak || !predicted) continue;
    ++compared;
    exact += *peak == *predicted ? 1 : 0;
    furthest = std::max(furthest, std::abs(*peak - *predicted));
  }
  if (compared == 0) return "";
  if (exact == compared) {
    return fmt::format(
        "predicted = by the memory formula, before the run: exact to the byte in "
        "{}.\n",
        text::counted(compared, "row", "rows"));
  }
  return fmt::format(
      "predicted = by the memory formula, before the run: exact to the byte in {} of {}, off by {} "
      "at most.\n",
      exact, text::counted(compared, "row", "rows"), format_bytes(furthest));
}

std::string what_the_columns_mean(const PartView& part) {
  std::string text;
  if (!part.timed.steps.empty()) {
    text = fmt::format("s/step = optimizer step of {}, slowest rank, mean over {};\n",
                       part.step_size, part.timed.text());
  }
  text += "peak alloc. = the most that a rank's tensors held in a timed step.\n";
  if (offloads(part)) text += "host peak = the same of what is offloaded, on the host.\n";
  text += prediction_text(part);
  const bool ran_out =
      any_of(part, [](const CellResult& cell) { return cell.oom_place.has_value(); });
  if (ran_out) text += "oom, backward 2 = out of memory in the backward of micro-batch 2.\n";
  return text;
}

}  // namespace

std::string verdict_text(const CellResult& cell) {
  if (cell.is_ok()) return has_budget(cell) ? "fits" : "ok";
  if (cell.status != results::Status::Oom || !cell.oom_place) {
    return results::to_string(cell.status);
  }
  return fmt::format("oom, {} {}", cell.oom_place->phase, cell.oom_place->micro_batch);
}

text::Blocks memory_table(const PartView& part) {
  const std::vector<MemoryColumn> columns = columns_of(part);
  std::vector<TextTable::Column> heads;
  for (const MemoryColumn& column : columns) heads.push_back({column.head, column.align});
  TextTable table(heads);
  std::vector<std::string> above(columns.size());
  for (const CellView* cell : by_sharding(part)) {
    std::vector<std::string> texts;
    for (const MemoryColumn& column : columns) texts.push_back(column.text(*cell));
    std::vector<std::string> shown = texts;
    for (std::size_t i = 0;
         i < columns.size() && columns[i].blank_if_repeated && texts[i] == above[i]; ++i)
      shown[i].clear();
    table.add_row(std::move(shown));
    above = std::move(texts);
  }
  return {text::Prose{what_the_columns_mean(part)}, table};
}

}  // namespace gradsync::report
