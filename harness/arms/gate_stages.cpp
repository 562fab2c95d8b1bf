#include "harness/arms/gate_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/units.h"
#include "harness/gate/cost.h"
#include "harness/gate/phases.h"
#include "harness/text/labels.h"

namespace gradsync::arms {
namespace {

int starts_of(const std::vector<gate::Turn>& turns) {
  int starts = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i == 0 || turns[i].start != turns[i - 1].start) ++starts;
  }
  return starts;
}

// Returns the shortest possible forecast for `rows` rows, however long their steps and starts are.
// A pass has as many steps as fill its share of a block, to the nearest step, and at least two, so
// it fills at least four fifths of its share.
gate::Forecast least(std::size_t rows, const gate::Settings& settings) {
  constexpr double kShortStepS = 1e-4;
  constexpr double kFilled = 0.8;
  const gate::LaunchCost cost{.step_s = std::vector<double>(rows, kShortStepS)};
  gate::Forecast forecast = gate::forecast({cost}, settings);
  for (double* seconds : {&forecast.first_s, &forecast.least_s}) *seconds *= kFilled;
  return forecast;
}

// "--time-budget 2m"
std::string budget_text(double budget_s) {
  return "--time-budget " + format_duration(budget_s);
}

std::string too_short_to_pass(double budget_s, double needed_s) {
  return fmt::format(
      "{} is over before rows can pass, for which {} is the least: only what is much slower will "
      "be "
      "found",
      budget_text(budget_s), format_duration(std::ceil(needed_s)));
}

std::vector<std::size_t> rows_to_time(const std::vector<GateRow>& rows, std::size_t count) {
  std::vector<gate::Row> all;
  for (const GateRow& row : rows) all.push_back(row.row);
  return gate::rows_that_stand_for(all, count);
}

}  // namespace

GateStages::GateStages(ResidentArms& arms, const std::vector<GateRow>& rows,
                       const GateQuestion& question, std::uint64_t seed)
    : arms_(arms),
      question_(question),
      settings_(question.settings),
      line_(question.options.run.quiet),
      measurement_(arms, rows, settings_, seed,
                   [this](const GateProgress& progress) { line_.show(progress); }),
      to_time_(rows_to_time(rows, question.timed_rows)),
      budget_s_(question.time_budget_s) {
  if (question.options.counts_only) return;
  if (budget_s_) line_.set_budget(*budget_s_);
  announce();
}

void GateStages::announce() const {
  const std::size_t rows = to_time_.size();
  const std::size_t all = measurement_.rows().size();
  const std::string whose = rows == all ? "" : fmt::format(" of {} that stand for them", rows);
  const std::string work =
      fmt::format("{}: counts first, then times{}, at most {} turns of each row in {} fresh starts",
                  text::counted(all, "row", "rows"), whose, settings_.looks.back().turns,
                  settings_.looks.back().turns / settings_.start_turns);
  if (!budget_s_) {
    log::info(work + "; how long that takes is known after the counts (--time-budget bounds it)");
    return;
  }
  const gate::Forecast at_least = least(rows, settings_);
  if (at_least.first_s > *budget_s_) {
    throw ConfigError(fmt::format(
        "--time-budget: got {}, expected more than {}, which one look at {} takes at the very "
        "least; --counts-only needs none",
        format_duration(*budget_s_), format_duration(std::ceil(at_least.first_s)),
        text::counted(rows, "row", "rows")));
  }
  log::info(fmt::format("{}, within {}", work, budget_text(*budget_s_)));
  if (at_least.least_s > *budget_s_) log::warn(too_short_to_pass(*budget_s_, at_least.least_s));
}

void GateStages::count() {
  measurement_.count();
}

std::vector<std::size_t> GateStages::rows_that_differ() const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    if (!measurement_.counts(i).differences.empty()) rows.push_back(i);
  }
  return rows;
}

std::vector<std::size_t> GateStages::rows_that_tell_nothing() const {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    if (!measurement_.counts(i).unfit_because.empty()) rows.push_back(i);
  }
  return rows;
}

void GateStages::count_control(const std::vector<std::size_t>& which) {
  arms_.start_control();
  measurement_.count_control(which);
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
  for (const std::size_t i : to_time_) {
    const MeasuredRow& row = measurement_.rows()[i];
    if (row.unfit_because.empty() || !row.turns.empty()) rows.push_back(i);
  }
  return rows;
}

bool GateStages::has_time_for_a_look() {
  const double spent_s = line_.elapsed_s();
  const gate::Forecast forecast = gate::forecast(measurement_.costs(timed_), settings_);
  log::info(gate::to_text(forecast, settings_));
  if (!budget_s_) {
    line_.set_budget(spent_s + forecast.most_s);
    return true;
  }
  if (spent_s + forecast.first_s > *budget_s_) {
    undecided_because_ = fmt::format(
        "times were not measured: {} allows no look at them; {} would allow one, {} all",
        budget_text(*budget_s_), budget_text(std::ceil(spent_s + forecast.first_s)),
        budget_text(std::ceil(spent_s + forecast.most_s)));
    log::warn(undecided_because_);
    return false;
  }
  if (spent_s + forecast.least_s > *budget_s_) {
    notes_.push_back(too_short_to_pass(*budget_s_, spent_s + forecast.least_s));
    log::warn(notes_.back());
  }
  return true;
}

// With a confirmation of one of them, so that what is found can be.
bool GateStages::has_time_for(const std::vector<std::size_t>& rows, int turns) const {
  if (!budget_s_) return true;
  gate::Settings one_row = settings_;
  one_row.confirmed_rows = 1;
  const std::vector<gate::LaunchCost> costs = measurement_.costs(rows);
  const double needed_s =
      gate::turns_s(costs, settings_, turns) + gate::confirmation_s(costs, one_row);
  return line_.elapsed_s() + needed_s <= *budget_s_;
}

void GateStages::measure_times() {
  timed_ = rows_with_times();
  if (timed_.empty()) return;
  if (!has_time_for_a_look()) {
    timed_.clear();
    return;
  }
  arms_.start_control();
  decide();
  int taken = 0;
  for (const gate::Look& look : settings_.looks) {
    const std::vector<std::size_t> open = rows_that(&gate::RowDecision::is_open);
    if (open.empty()) return;
    if (taken > 0 && !has_time_for(open, look.turns - taken)) {
      notes_.push_back(fmt::format("{} was over after {} turns, with {} undecided",
                                   budget_text(*budget_s_), taken,
                                   text::counted(open.size(), "row", "rows")));
      return;
    }
    take_turns_until(look, taken, open);
    taken = look.turns;
    if (confirms_a_finding()) return;
  }
}

void GateStages::take_turns_until(const gate::Look& look, int taken,
                                  const std::vector<std::size_t>& rows) {
  const int turns = settings_.start_turns;
  for (; taken < look.turns; taken += turns) {
    measurement_.start(fmt::format("start {} of at most {}", 1 + taken / turns,
                                   settings_.looks.back().turns / turns),
                       rows, turns);
  }
  decide();
}

// A regression of one row is that of the gate: it ends there.
bool GateStages::confirms_a_finding() {
  const auto is_regression = [](const gate::RowDecision& row) {
    return row.verdict == gate::Verdict::Regression;
  };
  while (true) {
    if (std::any_of(decision_.rows.begin(), decision_.rows.end(), is_regression)) return true;
    const std::vector<std::size_t> found = rows_that(&gate::RowDecision::needs_confirmation);
    if (found.empty()) return false;
    confirm(found);
  }
}

void GateStages::confirm(const std::vector<std::size_t>& rows) {
  const int turns = settings_.start_turns;
  const int starts = settings_.confirmation_turns / turns;
  for (int start = 0; start < starts; ++start) {
    measurement_.confirm(fmt::format("confirmation {} of {}", start + 1, starts), rows, turns);
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
    if (std::ranges::find(to_time_, index) == to_time_.end()) {
      if (row.no_times_because.empty()) row.no_times_because = "other rows' times stand for it";
      return row;
    }
    if (!undecided_because_.empty() && measured.unfit_because.empty()) {
      row.times.emplace().reason = undecided_because_;
    }
    return row;
  }
  row.times = decision_.rows[static_cast<std::size_t>(timed - timed_.begin())];
  gate::add_phases(*row.times, measured.turns, measured.confirmation, settings_);
  row.starts = starts_of(measured.turns) + starts_of(measured.confirmation);
  row.confirmation_turns = static_cast<int>(measured.confirmation.size());
  return row;
}

GateFindings GateStages::findings() const {
  GateFindings findings;
  gate::GateReport& report = findings.report;
  report.asked = gate::Asked{settings_};
  report.notes = notes_;
  for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
    report.rows.push_back(report_of(i));
    const MeasuredRow& row = measurement_.rows()[i];
    findings.candidate.insert(findings.candidate.end(), row.candidate_times.begin(),
                              row.candidate_times.end());
  }
  report.duration_s = line_.elapsed_s();
  report.time_budget_s = budget_s_;
  findings.turns = measurement_.family(timed_);
  return findings;
}

}  // namespace gradsync::arms
