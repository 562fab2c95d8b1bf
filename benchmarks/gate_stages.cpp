#include "benchmarks/gate_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/log.h"
#include "harness/gate/cost.h"

namespace gradsync::cli {
namespace {

int starts_of(const std::vector<gate::Turn>& turns) {
  int starts = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i == 0 || turns[i].start != turns[i - 1].start) ++starts;
  }
  return starts;
}

}  // namespace

GateStages::GateStages(ResidentArms& arms, const std::vector<GateRow>& rows,
                       const GateQuestion& question, std::uint64_t seed)
    : arms_(arms),
      question_(question),
      settings_(question.settings),
      line_(question.options.run.quiet, question.time_budget_s),
      measurement_(arms, rows, settings_, seed,
                   [this](const GateProgress& progress) { line_.show(progress); }) {}

bool GateStages::count() {
  measurement_.count();
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    if (!measurement_.counts(i).differences.empty()) return false;
  }
  return true;
}

void GateStages::count_control() {
  arms_.start_control();
  measurement_.count_control();
}

bool GateStages::wants_times(bool alike) {
  if (!alike) {
    no_times_because_ = "counts differ: times were not measured";
  } else if (question_.options.counts_only) {
    no_times_because_ = "not measured: --counts-only";
  }
  return no_times_because_.empty();
}

std::vector<std::size_t> GateStages::rows_with_times() const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    const MeasuredRow& row = measurement_.rows()[i];
    if (row.unfit_because.empty() || !row.turns.empty()) rows.push_back(i);
  }
  return rows;
}

void GateStages::fit_to_budget() {
  const double spent_s = line_.elapsed_s();
  const std::vector<gate::LaunchCost> costs = measurement_.costs();
  const gate::Forecast forecast =
      gate::forecast(costs, settings_, question_.time_budget_s - spent_s);
  const std::string note = gate::note_on_looks(forecast, costs, settings_, spent_s);
  if (!note.empty()) notes_.push_back(note);
  settings_ = gate::with_first_looks(settings_, forecast.looks);
  log::info(gate::to_text(forecast, settings_));
}

void GateStages::measure_times() {
  timed_ = rows_with_times();
  if (timed_.empty()) return;
  gate::check_reachable(settings_, static_cast<int>(timed_.size()), "gate");
  fit_to_budget();
  arms_.start_control();
  decide();
  const int turns = settings_.start_turns;
  int taken = 0;
  for (const gate::Look& look : settings_.looks) {
    const std::vector<std::size_t> open = rows_that(&gate::RowDecision::is_open);
    for (; taken < look.turns && !open.empty(); taken += turns) {
      measurement_.start(fmt::format("start {} of at most {}", 1 + taken / turns,
                                     settings_.looks.back().turns / turns),
                         open, turns);
    }
    decide();
  }
  confirm();
}

void GateStages::confirm() {
  const std::vector<std::size_t> found = rows_that(&gate::RowDecision::needs_confirmation);
  if (found.empty()) return;
  const int turns = settings_.start_turns;
  const int starts = settings_.confirmation_turns / turns;
  for (int start = 0; start < starts; ++start) {
    measurement_.confirm(fmt::format("confirmation {} of {}", start + 1, starts), found, turns);
  }
  decide();
}

std::vector<std::size_t> GateStages::rows_that(bool gate::RowDecision::*flag) const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < timed_.size(); ++i) {
    if (decision_.rows[i].*flag) rows.push_back(timed_[i]);
  }
  return rows;
}

void GateStages::decide() {
  const std::vector<gate::RowEvidence> all = measurement_.evidence();
  std::vector<gate::RowEvidence> evidence;
  for (const std::size_t row : timed_) evidence.push_back(all[row]);
  decision_ = gate::decide(evidence, settings_);
}

gate::RowReport GateStages::report_of(std::size_t index) const {
  const MeasuredRow& measured = measurement_.rows()[index];
  gate::RowReport row;
  row.row = measured.row.row;
  row.counts = measurement_.counts(index);
  const auto timed = std::find(timed_.begin(), timed_.end(), index);
  if (timed == timed_.end()) {
    row.no_times_because = no_times_because_.empty() ? measured.unfit_because : no_times_because_;
    return row;
  }
  row.times = decision_.rows[static_cast<std::size_t>(timed - timed_.begin())];
  row.starts = starts_of(measured.turns) + starts_of(measured.confirmation);
  row.confirmation_turns = static_cast<int>(measured.confirmation.size());
  return row;
}

GateFindings GateStages::findings() const {
  GateFindings findings;
  gate::GateReport& report = findings.report;
  report.settings = gate::to_json(settings_);
  report.notes = notes_;
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    report.rows.push_back(report_of(i));
    const MeasuredRow& row = measurement_.rows()[i];
    findings.candidate.insert(findings.candidate.end(), row.candidate_times.begin(),
                              row.candidate_times.end());
  }
  report.duration_s = line_.elapsed_s();
  report.time_budget_s = question_.time_budget_s;
  findings.turns = measurement_.family(timed_);
  return findings;
}

}  // namespace gradsync::cli
