#include "harness/report/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/report/row_names.h"

namespace gradsync::report {

using results::CellResult;

namespace {

std::string interval_notes(const PartView& part) {
  std::set<std::string> kinds;
  for (const CellResult& cell : part.cells) {
    if (cell.step_s) kinds.insert(cell.interval);
  }
  std::string text;
  for (const std::string& kind : kinds) {
    if (kind.starts_with("none")) {
      text += fmt::format("- No interval ({}): take more launches.\n", kind.substr(6));
    } else {
      text += fmt::format("- 95 % intervals: {}.\n", kind);
    }
  }
  return text;
}

// "baseline (1 of 4 trials), no_sync"
std::string strategy_with_count(const CellResult& cell) {
  std::string label = strategy_label(cell.cell.strategy());
  int all = 0;
  for (const auto& [status, count] : cell.trials) all += count;
  const auto ok = cell.trials.find("ok");
  if (ok == cell.trials.end()) return label;
  std::string text = fmt::format("{} ({} of {} trials", label, all - ok->second, all);
  if (cell.step_s) {
    text += fmt::format("; the others {} s/step", seconds_text(cell.step_s->mean, 3));
  }
  return text + ")";
}

// One line per (status, reason, setting), because a fault usually takes a whole topology with it.
std::string status_notes(const PartView& part) {
  struct Line {
    std::string head;
    std::string reason;
    std::vector<std::string> strategies;
  };
  std::vector<Line> lines;
  const RowNames names(part);
  for (std::size_t row = 0; row < part.cells.size(); ++row) {
    const CellResult& cell = part.cells[row];
    if (cell.is_ok()) continue;
    const std::string head =
        fmt::format("{}: {}", results::to_string(cell.status), names.place(row));
    const auto same = [&](const Line& line) {
      return line.head == head && line.reason == cell.reason;
    };
    auto found = std::ranges::find_if(lines, same);
    if (found == lines.end()) found = lines.insert(found, {head, cell.reason, {}});
    found->strategies.push_back(strategy_with_count(cell));
  }
  std::string text;
  for (const auto& [head, reason, strategies] : lines) {
    text += fmt::format("- {}, {}: {}\n", head, fmt::join(strategies, ", "), reason);
  }
  return text;
}

std::string missing_times(const PartView& part) {
  std::map<std::string, std::set<std::string>> places;
  for (const CellResult& cell : part.cells) {
    if (!cell.is_ok() || cell.step_s) continue;
    places[cell.step_s.why_not()].insert(topology_label(part.context, cell).text());
  }
  std::string text;
  for (const auto& [reason, where] : places) {
    text += fmt::format("- No times for {}: {}.\n", fmt::join(where, "; "), reason);
  }
  return text;
}

// What keeps the host from running ahead of a GPU, which then idles between its kernels.
std::string read_back_notes(const PartView& part) {
  std::map<std::string, std::set<std::string>> models;
  for (const CellResult& cell : part.cells) {
    if (!cell.host_reads_back.empty()) models[cell.host_reads_back].insert(cell.cell.model());
  }
  std::string text;
  for (const auto& [what, names] : models) {
    text += fmt::format("- In every micro-batch of {} the host waits for the GPU, to read {}.\n",
                        fmt::join(names, ", "), what);
  }
  return text;
}

}  // namespace

std::string notes(const PartView& part) {
  return status_notes(part) + missing_times(part) + read_back_notes(part) + interval_notes(part);
}

}  // namespace gradsync::report
