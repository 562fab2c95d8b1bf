// The stages of a gate between arms of any kind: counts first, then times in turns with looks at
// preset points, and after each look a confirmation of what was found. The first finding that is
// confirmed ends the gate: it is a regression whatever the other rows are.
//
// How long it takes follows from the plan and from what its rows need, once the counts have shown
// what a step and a start cost, and is announced then. A budget that was chosen bounds it: what
// that surely forbids is said before anything runs, and looks end where the next one would not fit.
// Nothing that has run is thrown away for a budget.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/arms/gate_measurement.h"
#include "harness/arms/gate_progress.h"
#include "harness/arms/gate_question.h"
#include "harness/arms/resident_arms.h"
#include "harness/gate/gate_report.h"
#include "harness/gate/turns.h"

namespace gradsync::arms {

struct GateFindings {
  gate::GateReport report;
  gate::TurnFamily turns;                       // without rows where no times were measured
  std::vector<results::TrialRecord> candidate;  // every block of it, for claims
};

class GateStages {
 public:
  // `arms` and `question` must outlive it. The seed decides the order of the arms in every turn.
  // Says on stderr what will be done.   Errors: ConfigError for an alpha that so many rows cannot
  // reach, or a budget that is too short for one look whatever steps and starts take.
  GateStages(ResidentArms& arms, const std::vector<GateRow>& rows, const GateQuestion& question,
             std::uint64_t seed);

  // Counts a block of every row in baseline and candidate.
  void count();

  // Returns the rows whose counts differ, as far as is known.
  std::vector<std::size_t> rows_that_differ() const;

  // Returns the rows in which the baseline's counts tell nothing, as far as is known.
  std::vector<std::size_t> rows_that_tell_nothing() const;

  // Counts a block of these rows in the control, too, where they differ: in what the baseline
  // differs from itself is then no difference.
  void count_control(const std::vector<std::size_t>& which);

  // Returns whether times are to be measured, after count(); where not, the findings say why.
  // `alike`: nothing that was counted differs.
  bool wants_times(bool alike);

  // Measures for as long as was announced, or less; how far it is goes to stderr. Where the budget
  // turns out to allow no look, nothing, and the rows are undecided.   Errors: run::Interrupted.
  void measure_times();

  // Timed steps of a pass of the row; 0: not known.
  int pass_steps(std::size_t row) const { return measurement_.rows()[row].pass_steps; }
  const gate::Settings& settings() const { return settings_; }

  // Returns what was found so far, without the two that were compared.
  GateFindings findings() const;

 private:
  // Those whose times are to be measured, as far as each can be.
  std::vector<std::size_t> rows_with_times() const;
  void announce() const;
  // Returns whether the budget allows any look at times; where not, the findings say so.
  bool has_time_for_a_look();
  bool has_time_for(const std::vector<std::size_t>& rows, int turns) const;
  void take_turns_until(const gate::Look& look, int taken, const std::vector<std::size_t>& rows);
  // Confirms what was found, as long as nothing is confirmed. Returns whether anything is.
  bool confirms_a_finding();
  void confirm(const std::vector<std::size_t>& rows);
  std::vector<std::size_t> rows_that(bool gate::RowDecision::*flag) const;
  void decide();
  gate::RowReport report_of(std::size_t index) const;

  ResidentArms& arms_;
  const GateQuestion& question_;
  gate::Settings settings_;
  GateProgressLine line_;
  GateMeasurement measurement_;
  std::vector<std::size_t> to_time_;  // rows that have times: all, or some that stand for all
  std::vector<std::size_t> timed_;    // those of them that could be measured
  gate::Decision decision_;           // of these, in their order
  std::vector<std::string> notes_;
  std::string no_times_because_;
  std::string undecided_because_;   // set where times were to be measured and could not be
  std::optional<double> budget_s_;  // of the whole gate; absent: not known yet
};

}  // namespace gradsync::arms
