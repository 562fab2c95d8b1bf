#include "harness/report/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

std::string interval_notes(const PartView& part) {
  std::set<std::string> kinds;
  for (const json& cell : part.cells) {
    if (cell["step_s"].is_object()) kinds.insert(cell.value("interval", ""));
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

std::string name_of(const PartView& part, const json& cell) {
  std::string name = topology_label(part.context, cell).text();
  for (const std::string& parameter : part.varying_parameters()) {
    name += fmt::format(", {} {}", parameter, parameter_text(cell["cell"], parameter));
  }
  return name;
}

// "baseline (1 of 4 trials), no_sync"
std::string strategy_with_count(const json& cell) {
  std::string label = strategy_label(cell["cell"].value("strategy", ""));
  const json& trials = cell["trials"];
  std::size_t all = 0;
  for (const auto& [status, count] : trials.items()) all += count.get<std::size_t>();
  const std::size_t bad = all - trials.value("ok", std::size_t{0});
  if (all == 0 || bad == all) return label;
  std::string text = fmt::format("{} ({} of {} trials", label, bad, all);
  if (cell["step_s"].is_object()) {
    text += fmt::format("; the others {} s/step", seconds_text(cell["step_s"]["mean"], 3));
  }
  return text + ")";
}

// One line per (status, reason, setting), because a fault usually takes a whole topology with it.
std::string status_notes(const PartView& part) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  std::map<std::string, std::string> reasons;
  for (const json& cell : part.cells) {
    const std::string status = cell.value("status", "");
    if (status == "ok") continue;
    const std::string head = fmt::format("{}: {}", status, name_of(part, cell));
    const std::string key = head + cell.value("reason", "");
    const auto same = [&](const auto& line) { return line.first == key; };
    auto found = std::find_if(lines.begin(), lines.end(), same);
    if (found == lines.end()) {
      lines.push_back({key, {}});
      found = lines.end() - 1;
      reasons[key] = cell.value("reason", "");
    }
    found->second.push_back(strategy_with_count(cell));
  }
  std::string text;
  for (const auto& [key, strategies] : lines) {
    const std::string& reason = reasons[key];
    const std::string head = key.substr(0, key.size() - reason.size());
    text += fmt::format("- {}, {}: {}\n", head, fmt::join(strategies, ", "), reason);
  }
  return text;
}

std::string missing_times(const PartView& part) {
  std::map<std::string, std::set<std::string>> places;
  for (const json& cell : part.cells) {
    if (cell.value("status", "") != "ok" || !cell["step_s"].is_null()) continue;
    places[cell["null_reasons"].value("step_s", "")].insert(
        topology_label(part.context, cell).text());
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
  for (const json& cell : part.cells) {
    const std::string what = cell.value("host_reads_back", "");
    if (!what.empty()) models[what].insert(cell["cell"].value("model", ""));
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
