#include "benchmarks/gate_builds.h"

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/gate_measurement.h"
#include "benchmarks/gate_progress.h"
#include "benchmarks/interrupt.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/gate/cost.h"

namespace gradsync::cli {
namespace {

using gate::Arm;

// One comparison of two builds, stage by stage.
class BuildGate {
 public:
  explicit BuildGate(const GateQuestion& question)
      : question_(question),
        settings_(question.settings),
        plan_(checked_plan(question.options.run)),
        line_(question.options.run.quiet, question.time_budget_s),
        arms_(question.options.run, {question.options.baseline, question.options.candidate},
              &interrupt_flag()),
        measurement_(arms_, arms_.rows(question.rows), settings_, plan_.seed,
                     [this](const GateProgress& progress) { line_.show(progress); }) {}

  GateFindings run() {
    note_what_is_compared();
    measurement_.count();
    const bool same = count_rows();
    if (!same) {
      no_times_because_ = "counts differ: times were not measured";
    } else if (question_.options.counts_only) {
      no_times_because_ = "not measured: --counts-only";
    } else {
      measure_times();
    }
    return findings();
  }

 private:
  void note_what_is_compared() {
    if (arms_.same_program()) {
      notes_.push_back("both builds are the same file: what differs is chance");
    }
  }

  // Returns whether every row of the candidate counts as the baseline's.
  bool count_rows() const {
    for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
      if (!measurement_.counts(i).differences.empty()) return false;
    }
    return true;
  }

  void require_valid_times() const {
    for (const Arm arm : {Arm::Baseline, Arm::Candidate}) {
      if (arms_.of(arm).build().value("timing_valid", false)) continue;
      throw EnvironmentError(fmt::format("{} {}: times of a debug or sanitizer build mean nothing",
                                         gate::to_string(arm), arms_.of(arm).program()),
                             "build it with the release preset, or compare with --counts-only");
    }
  }

  std::vector<std::size_t> rows_with_times() const {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < measurement_.rows().size(); ++i) {
      const MeasuredRow& row = measurement_.rows()[i];
      if (row.unfit_because.empty() || !row.turns.empty()) rows.push_back(i);
    }
    return rows;
  }

  void fit_to_budget() {
    const double left_s = question_.time_budget_s - line_.elapsed_s();
    const gate::Forecast forecast = gate::forecast(measurement_.costs(), settings_, left_s);
    if (forecast.looks < settings_.looks.size()) {
      notes_.push_back(fmt::format("the time budget allows {} of {} looks", forecast.looks,
                                   settings_.looks.size()));
    }
    settings_ = gate::with_first_looks(settings_, forecast.looks);
    log::info(gate::to_text(forecast, settings_));
  }

  void measure_times() {
    require_valid_times();
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

  void confirm() {
    const std::vector<std::size_t> found = rows_that(&gate::RowDecision::needs_confirmation);
    if (found.empty()) return;
    const int turns = settings_.start_turns;
    const int starts = settings_.confirmation_turns / turns;
    for (int start = 0; start < starts; ++start) {
      measurement_.confirm(fmt::format("confirmation {} of {}", start + 1, starts), found, turns);
    }
    decide();
  }

  std::vector<std::size_t> rows_that(bool gate::RowDecision::*flag) const {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < timed_.size(); ++i) {
      if (decision_.rows[i].*flag) rows.push_back(timed_[i]);
    }
    return rows;
  }

  void decide() {
    const std::vector<gate::RowEvidence> all = measurement_.evidence();
    std::vector<gate::RowEvidence> evidence;
    for (const std::size_t row : timed_) evidence.push_back(all[row]);
    decision_ = gate::decide(evidence, settings_);
  }

  gate::Side side(Arm arm) const { return {arms_.of(arm).program(), arms_.of(arm).build()}; }

  gate::RowReport report_of(std::size_t index) const {
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

  static int starts_of(const std::vector<gate::Turn>& turns) {
    int starts = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (i == 0 || turns[i].start != turns[i - 1].start) ++starts;
    }
    return starts;
  }

  GateFindings findings() const {
    GateFindings findings;
    gate::GateReport& report = findings.report;
    report.plan = plan_.name;
    report.baseline = side(Arm::Baseline);
    report.candidate = side(Arm::Candidate);
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

  const GateQuestion& question_;
  gate::Settings settings_;
  plan::Plan plan_;
  GateProgressLine line_;
  GateArms arms_;
  GateMeasurement measurement_;
  std::vector<std::size_t> timed_;  // rows whose times are measured
  gate::Decision decision_;         // of these, in their order
  std::vector<std::string> notes_;
  std::string no_times_because_;
};

}  // namespace

GateFindings compare_builds(const GateQuestion& question) {
  return BuildGate(question).run();
}

}  // namespace gradsync::cli
