#include "harness/session/search_cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/log.h"
#include "harness/base/units.h"
#include "harness/session/search_outcome.h"

namespace gradsync::session {
namespace {

using plan::Edge;
using results::Status;
using results::TrialRecord;
using summary::SearchedCell;

// The most that any rank says under `field`; nothing where one does not know it.
std::optional<std::int64_t> largest_of(const TrialRecord& trial,
                                       std::optional<std::int64_t> results::RankRecord::*field) {
  std::optional<std::int64_t> largest;
  for (const results::RankRecord& rank : trial.ranks) {
    if (!(rank.*field)) return std::nullopt;
    largest = std::max(largest.value_or(0), *(rank.*field));
  }
  return largest;
}

std::optional<std::int64_t> peak_of(const TrialRecord& trial) {
  return largest_of(trial, &results::RankRecord::peak_allocated_bytes);
}

// What a budget must hold: a GPU's counts what its allocator reserves.
std::optional<std::int64_t> needed_by(const TrialRecord& trial) {
  const auto reserved = largest_of(trial, &results::RankRecord::peak_reserved_bytes);
  return reserved ? reserved : peak_of(trial);
}

std::string status_text(const TrialRecord& trial) {
  const std::string status = results::to_string(trial.status);
  return trial.reason.empty() ? status : status + ": " + trial.reason;
}

class CellSearch {
 public:
  CellSearch(Session& session, const plan::Part& part, const plan::Cell& cell,
             const SearchQuestion& question)
      : session_(session), part_(part), cell_(cell), question_(question) {}

  SearchedCell run() {
    found_.part = part_.name;
    found_.cell = results::Parameters(cell_).without({question_.axis.c_str()});
    found_.from = question_.from;
    found_.to = question_.to ? question_.to : end_for_budget();
    Edge edge;
    if (found_.to) {
      edge = plan::find_edge({question_.wanted, question_.from, *found_.to, question_.checks},
                             [this](std::int64_t value) { return probe(value); });
    }
    conclude(edge, question_.axis, found_);
    return found_;
  }

 private:
  // Runs the trial; `value` is nothing where the axis, a budget, is to be absent.
  const TrialRecord& run_trial(const std::optional<std::int64_t>& value) {
    const TrialRecord& trial = session_.run_alone(part_, plan_cell(value));
    const auto peak = peak_of(trial);
    found_.probes.push_back({.order = trial.order,
                             .value = value,
                             .status = trial.status,
                             .reason = trial.reason,
                             .peak_allocated_bytes = peak});
    log::info(fmt::format("[{}] {} | {} | {} {} | {}{}", trial.order + 1, cell_.topology,
                          cell_.strategy, question_.axis, value ? std::to_string(*value) : "none",
                          status_text(trial),
                          peak ? ", peak " + format_bytes(static_cast<double>(*peak)) : ""));
    return trial;
  }

  plan::Cell plan_cell(const std::optional<std::int64_t>& value) const {
    return with_value(cell_, question_.axis, value.value_or(0));
  }

  plan::Probe probe(std::int64_t value) {
    const TrialRecord& trial = run_trial(value);
    if (trial.status == Status::Ok) return {plan::ProbeVerdict::Fits, needed_by(trial)};
    if (trial.status == Status::Oom) return {plan::ProbeVerdict::DoesNotFit, std::nullopt};
    return {};
  }

  // Where a budget surely fits, with room above the edge for checks; nothing where it cannot be
  // told, which the last probe then says.
  std::optional<std::int64_t> end_for_budget() {
    const TrialRecord& trial = run_trial(std::nullopt);
    const auto needed = needed_by(trial);
    if (trial.status != Status::Ok || !needed) return std::nullopt;
    return std::max(2 * *needed, question_.from + 1);
  }

  Session& session_;
  const plan::Part& part_;
  const plan::Cell& cell_;
  const SearchQuestion& question_;
  SearchedCell found_;
};

}  // namespace

void search_cells(Session& session, const plan::Plan& plan, const SearchQuestion& question,
                  std::vector<SearchedCell>& found) {
  for (const plan::Part& part : plan.parts) {
    for (const plan::Cell& cell : part.cells) {
      found.push_back(CellSearch(session, part, cell, question).run());
    }
  }
}

}  // namespace gradsync::session
