#include "harness/report/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "harness/base/units.h"
#include "harness/report/labels.h"
#include "harness/report/text_table.h"
#include "harness/report/timed_steps.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

constexpr const char* kSharding = "reshard_after_forward";
constexpr const char* kAccumulation = "accumulation_steps";
constexpr const char* kBudget = "memory_budget_bytes";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_budget(const json& cell) {
  return cell["cell"].contains(kBudget);
}

// The number in `field` of an entry of result.json; nothing where it is null or absent.
std::optional<double> number_in(const json& cell, const char* field) {
  const auto found = cell.find(field);
  if (found == cell.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<double> peak_of(const json& cell) {
  if (cell.value("status", "") != "ok") return std::nullopt;
  return number_in(cell, "peak_allocated_bytes");
}

std::optional<double> predicted_peak_of(const json& cell) {
  return number_in(cell, "predicted_peak_allocated_bytes");
}

std::string bytes_text(const std::optional<double>& bytes) {
  return bytes ? format_bytes(*bytes) : "-";
}

std::string setting_text(const json& cell, const std::string& name) {
  if (name != kBudget) return parameter_text(cell["cell"], name);
  const json value = cell["cell"].value(name, json());
  return value.is_null() ? "none" : format_bytes(value.get<double>());
}

std::string step_text(const json& cell, int decimals) {
  const json& step = cell["step_s"];
  const bool timed = cell.value("status", "") == "ok" && step.is_object();
  return timed ? seconds_text(step["mean"], decimals) : "-";
}

struct Column {
  std::string head;
  Align align;
  std::function<std::string(const json& cell)> text;
  bool told_once = false;  // blank where the row above, and all before it in the row, is the same
};

// What tells rows apart, from what varies least to what varies most.
std::vector<Column> naming_columns(const PartView& part) {
  const auto varying = part.varying_parameters();
  std::vector<Column> columns;
  if (part.several_topologies()) {
    const auto where = [&part](const json& cell) {
      return topology_label(part.context, cell).text();
    };
    columns.push_back({"topology", Align::Left, where, true});
  }
  if (contains(varying, kSharding) || contains(varying, "wrapper")) {
    const auto sharding = [](const json& cell) { return sharding_label(cell["cell"]); };
    columns.push_back({"sharding", Align::Left, sharding, true});
  }
  for (const std::string& name : varying) {
    if (name == kSharding || name == "wrapper" || name == kAccumulation) continue;
    const auto value = [name](const json& cell) { return setting_text(cell, name); };
    columns.push_back({name == kBudget ? "budget" : name, Align::Left, value});
  }
  if (contains(varying, kAccumulation)) {
    const auto count = [](const json& cell) { return setting_text(cell, kAccumulation); };
    columns.push_back({"accum", Align::Right, count});
  }
  const auto strategy = [](const json& cell) {
    return strategy_label(cell["cell"].value("strategy", ""));
  };
  columns.push_back({"strategy", Align::Left, strategy});
  return columns;
}

bool any_of(const PartView& part, const std::function<bool(const json& cell)>& holds) {
  return std::any_of(part.cells.begin(), part.cells.end(), holds);
}

bool has_predictions(const PartView& part) {
  return any_of(part, [](const json& cell) { return predicted_peak_of(cell).has_value(); });
}

bool has_verdicts(const PartView& part) {
  return any_of(
      part, [](const json& cell) { return has_budget(cell) || cell.value("status", "") != "ok"; });
}

std::vector<Column> columns_of(const PartView& part) {
  std::vector<Column> columns = naming_columns(part);
  if (!timed_steps(part).steps.empty()) {
    const int decimals = decimals_for(part.cells);
    const auto step = [decimals](const json& cell) { return step_text(cell, decimals); };
    columns.push_back({"s/step", Align::Right, step});
  }
  const auto peak = [](const json& cell) { return bytes_text(peak_of(cell)); };
  columns.push_back({"peak alloc.", Align::Right, peak});
  if (has_predictions(part)) {
    const auto predicted = [](const json& cell) { return bytes_text(predicted_peak_of(cell)); };
    columns.push_back({"predicted", Align::Right, predicted});
  }
  if (has_verdicts(part)) columns.push_back({"result", Align::Left, verdict_text});
  return columns;
}

// How close the predictions came, over the rows that have both.
std::string prediction_text(const PartView& part) {
  std::size_t compared = 0;
  std::size_t exact = 0;
  double furthest = 0;
  for (const json& cell : part.cells) {
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
        counted(compared, "row", "rows"));
  }
  return fmt::format(
      "predicted = by the memory formula, before the run: exact to the byte in {} of {}, off by {} "
      "at most.\n",
      exact, counted(compared, "row", "rows"), format_bytes(furthest));
}

std::string what_the_columns_mean(const PartView& part) {
  const TimedSteps timed = timed_steps(part);
  std::string text;
  if (!timed.steps.empty()) {
    text = fmt::format("s/step = optimizer step of {}, slowest rank, mean over {};\n",
                       step_size_text(part), timed.text());
  }
  text += "peak alloc. = the most that a rank's tensors held in a timed step.\n";
  text += prediction_text(part);
  const bool ran_out = any_of(part, [](const json& cell) { return oom_place(cell).has_value(); });
  if (ran_out) text += "oom, backward 2 = out of memory in the backward of micro-batch 2.\n";
  return text;
}

}  // namespace

bool is_about_memory(const PartView& part) {
  const auto varying = part.varying_parameters();
  const bool differs = std::any_of(varying.begin(), varying.end(), [](const std::string& name) {
    return name == kAccumulation || name == kSharding || name == kBudget || name.ends_with("dtype");
  });
  return any_of(part, [&](const json& cell) {
    return cell["cell"].value("wrapper", "") == "fsdp" && (differs || has_budget(cell));
  });
}

std::string verdict_text(const json& result_cell) {
  const std::string status = result_cell.value("status", "");
  if (status == "ok") return has_budget(result_cell) ? "fits" : "ok";
  const auto place = status == "oom" ? oom_place(result_cell) : std::nullopt;
  return place ? fmt::format("oom, {} {}", place->phase, place->micro_batch) : status;
}

PartView grouped_by_sharding(const PartView& part) {
  std::map<std::string, std::size_t> groups;
  const auto group = [&groups](const json& cell) {
    const std::string name =
        cell["cell"].value("topology", "") + " " + sharding_label(cell["cell"]);
    return groups.try_emplace(name, groups.size()).first->second;
  };
  for (const json& cell : part.cells) group(cell);  // groups in the order in which they come
  PartView grouped = part;
  std::stable_sort(grouped.cells.begin(), grouped.cells.end(),
                   [&](const json& left, const json& right) { return group(left) < group(right); });
  return grouped;
}

std::string memory_table(const PartView& part) {
  const std::vector<Column> columns = columns_of(part);
  std::vector<TextTable::Column> heads;
  for (const Column& column : columns) heads.push_back({column.head, column.align});
  TextTable table(heads);
  std::vector<std::string> above(columns.size());
  for (const json& cell : grouped_by_sharding(part).cells) {
    std::vector<std::string> texts;
    for (const Column& column : columns) texts.push_back(column.text(cell));
    std::vector<std::string> shown = texts;
    for (std::size_t i = 0; i < columns.size() && columns[i].told_once && texts[i] == above[i]; ++i)
      shown[i].clear();
    table.add_row(std::move(shown));
    above = std::move(texts);
  }
  return what_the_columns_mean(part) + "\n" + table.to_markdown();
}

}  // namespace gradsync::report
