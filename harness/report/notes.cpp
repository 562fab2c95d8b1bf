#include "harness/report/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using summary::CellView;
using summary::PartView;
using text::Bullets;

namespace {

using Lines = std::vector<std::string>;

Lines interval_notes(const PartView& part) {
  std::set<std::string> lines;
  for (const CellResult& cell : part.cells) {
    if (!cell.step_s) continue;
    const std::string& none = cell.no_interval_because;
    lines.insert(none.empty() ? fmt::format("95 % intervals: {}.", cell.interval)
                              : fmt::format("No interval ({}): take more launches.", none));
  }
  return {lines.begin(), lines.end()};
}

// "baseline (1 of 4 trials), no_sync"
std::string strategy_with_count(const CellView& cell) {
  int all = 0;
  for (const auto& [status, count] : cell.trials) all += count;
  const auto ok = cell.trials.find("ok");
  if (ok == cell.trials.end()) return cell.name.strategy;
  std::string text = fmt::format("{} ({} of {} trials", cell.name.strategy, all - ok->second, all);
  if (cell.step_s) {
    text += fmt::format("; the others {} s/step", text::seconds_text(cell.step_s->mean, 3));
  }
  return text + ")";
}

// One line per (status, reason, setting), because a fault usually takes a whole topology with it.
Lines status_notes(const PartView& part) {
  struct Fault {
    std::string head;
    std::string reason;
    std::vector<std::string> strategies;
  };
  std::vector<Fault> faults;
  for (const CellView& cell : part.cells) {
    if (cell.is_ok()) continue;
    const std::string head =
        fmt::format("{}: {}", results::to_string(cell.status), cell.name.place());
    const auto same = [&](const Fault& fault) {
      return fault.head == head && fault.reason == cell.reason;
    };
    auto found = std::ranges::find_if(faults, same);
    if (found == faults.end()) found = faults.insert(found, {head, cell.reason, {}});
    found->strategies.push_back(strategy_with_count(cell));
  }
  Lines lines;
  for (const auto& [head, reason, strategies] : faults) {
    lines.push_back(fmt::format("{}, {}: {}", head, fmt::join(strategies, ", "), reason));
  }
  return lines;
}

bool lacks_times(const CellView& cell) {
  return cell.is_ok() && !cell.step_s;
}

// Where times are missing for the reason that `cell` gives: in all rows of its topology, or in it.
std::string untimed_place(const PartView& part, const CellView& cell) {
  const bool all = std::ranges::all_of(part.cells, [&](const CellView& other) {
    return !other.is_ok() || other.cell.topology() != cell.cell.topology() ||
           (lacks_times(other) && other.step_s.why_not() == cell.step_s.why_not());
  });
  return all ? cell.name.topology.text() : cell.name.place() + ", " + cell.name.strategy;
}

Lines missing_times(const PartView& part) {
  std::map<std::string, std::set<std::string>> places;
  for (const CellView& cell : part.cells) {
    if (lacks_times(cell)) places[cell.step_s.why_not()].insert(untimed_place(part, cell));
  }
  Lines lines;
  for (const auto& [reason, where] : places) {
    lines.push_back(fmt::format("No times for {}: {}.", fmt::join(where, "; "), reason));
  }
  return lines;
}

// What keeps the host from running ahead of a GPU, which then idles between its kernels.
Lines read_back_notes(const PartView& part) {
  std::map<std::string, std::set<std::string>> models;
  for (const CellResult& cell : part.cells) {
    if (!cell.host_reads_back.empty()) models[cell.host_reads_back].insert(cell.cell.model());
  }
  Lines lines;
  for (const auto& [what, names] : models) {
    lines.push_back(
        fmt::format("In every micro-batch of {} the host waits for the GPU, to read {}.",
                    fmt::join(names, ", "), what));
  }
  return lines;
}

// NCCL's kernel starts when its own rank is ready, and spins until all are.
Lines late_rank_notes(const PartView& part) {
  const bool has_times = std::ranges::any_of(
      part.cells, [](const CellView& cell) { return bool(cell.exposed_comm_s); });
  if (!part.is_on_nccl || !has_times) return {};
  return {
      "Times of NCCL's collectives, and so exposed communication, include each rank's wait for "
      "the last one to arrive: a slow rank looks like a slow network on the others."};
}

// Returns notes on micro-batches whose collectives were not counted, since they would have repeated
// those before.
Lines declared_notes(const PartView& part) {
  std::map<std::pair<int, int>, std::vector<std::string>> rows;  // by how many, of how many
  for (const CellResult& cell : part.cells) {
    if (cell.declared_micro_batches == 0) continue;
    rows[{cell.declared_micro_batches, cell.cell.accumulation_steps()}].push_back(
        text::strategy_label(cell.cell.strategy()));
  }
  Lines lines;
  for (auto& [counts, strategies] : rows) {
    std::ranges::sort(strategies);
    strategies.erase(std::unique(strategies.begin(), strategies.end()), strategies.end());
    lines.push_back(fmt::format(
        "Declared, not run: {} of the {} micro-batches of a step of {}, since they repeat the one "
        "before, in collectives and memory (--every-micro-batch runs them).",
        counts.first, counts.second, fmt::join(strategies, ", ")));
  }
  return lines;
}

// How far the weights of a cell are from equal, or may be.
double inequality(const results::TrialAccount& account) {
  return std::max({account.weight_max - 1, 1 - account.weight_min, account.weight_error});
}

// One line for all cells whose micro-batches weigh the same, and one for each other kind.
Lines account_notes(const PartView& part) {
  constexpr const char* kEqual = "equal";
  std::map<std::string, std::vector<const results::TrialAccount*>> kinds;
  for (const CellResult& cell : part.cells) {
    if (cell.account) kinds[cell.account->kind].push_back(&*cell.account);
  }
  Lines lines;
  for (const auto& [kind, accounts] : kinds) {
    const std::string where = fmt::format("{} of {} {}", accounts.size(), part.cells.size(),
                                          part.cells.size() == 1 ? "cell" : "cells");
    if (kind != kEqual) {
      lines.push_back(fmt::format("Gradients, in {}: {}.", where, accounts.front()->verdict));
      continue;
    }
    double most = 0;
    for (const results::TrialAccount* account : accounts) {
      most = std::max(most, inequality(*account));
    }
    lines.push_back(fmt::format(
        "Gradients, in {}: all micro-batches of all ranks weigh the same within {:.2g} %.", where,
        100 * most));
  }
  return lines;
}

}  // namespace

Bullets notes(const PartView& part) {
  Bullets bullets;
  for (const auto& of : {status_notes, missing_times, declared_notes, read_back_notes,
                         late_rank_notes, account_notes, interval_notes}) {
    for (std::string& line : of(part)) bullets.items.push_back(std::move(line));
  }
  return bullets;
}

}  // namespace gradsync::report
