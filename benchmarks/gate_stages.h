// The stages of a gate between arms of any kind: counts first, then times in turns with looks at
// preset points, then a confirmation of what was found.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/gate_measurement.h"
#include "benchmarks/gate_progress.h"
#include "benchmarks/gate_question.h"
#include "benchmarks/resident_arms.h"
#include "harness/gate/gate_report.h"
#include "harness/gate/turns.h"

namespace gradsync::cli {

struct GateFindings {
  gate::GateReport report;
  gate::TurnFamily turns;                       // without rows where no times were measured
  std::vector<results::TrialRecord> candidate;  // every block of it, for claims
};

class GateStages {
 public:
  // `arms` and `question` must outlive it. The seed decides the order of the arms in every turn.
  GateStages(ResidentArms& arms, const std::vector<GateRow>& rows, const GateQuestion& question,
             std::uint64_t seed);

  // Counts a block of every row in baseline and candidate. Returns whether all count alike.
  bool count();

  // Counts a block of every row in the control, too, where not all count alike: findings() then
  // leave out in what the baseline differs from itself.
  void count_control();

  // Returns whether times are to be measured, after count(); where not, the findings say why.
  // `alike`: nothing that was counted differs.
  bool wants_times(bool alike);

  // Measures for as long as the time budget says, or less; how far it is goes to stderr.
  // Errors: run::Interrupted; ConfigError for a budget or an alpha that make no gate.
  void measure_times();

  // Timed steps of a pass of the row; 0: not known.
  int pass_steps(std::size_t row) const { return measurement_.rows()[row].pass_steps; }
  const gate::Settings& settings() const { return settings_; }

  // Returns what was found so far, without the two that were compared.
  GateFindings findings() const;

 private:
  std::vector<std::size_t> rows_with_times() const;
  void fit_to_budget();
  void confirm();
  std::vector<std::size_t> rows_that(bool gate::RowDecision::*flag) const;
  void decide();
  gate::RowReport report_of(std::size_t index) const;

  ResidentArms& arms_;
  const GateQuestion& question_;
  gate::Settings settings_;
  GateProgressLine line_;
  GateMeasurement measurement_;
  std::vector<std::size_t> timed_;  // rows whose times are measured
  gate::Decision decision_;         // of these, in their order
  std::vector<std::string> notes_;
  std::string no_times_because_;
};

}  // namespace gradsync::cli
