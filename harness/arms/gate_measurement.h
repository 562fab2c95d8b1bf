// Measures the rows of a gate: their counts in one block of each build, their times in turns.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/arms/resident_arms.h"
#include "harness/gate/cost.h"
#include "harness/gate/counts.h"
#include "harness/gate/settings.h"
#include "harness/gate/turns.h"
#include "harness/gate/verdict.h"
#include "harness/results/records.h"
#include "harness/stats/random.h"

namespace gradsync::arms {

// Everything that was measured of one row.
struct MeasuredRow {
  GateRow row;
  int pass_steps = 0;  // timed steps of a pass; 0: not known before the first start
  // The first block of each build, and every other that counts otherwise than the first did. Blocks
  // of the control are the baseline's.
  std::vector<results::TrialRecord> baseline;
  std::vector<results::TrialRecord> candidate;
  std::vector<results::TrialRecord> candidate_times;  // every pass of it, without its events
  double counted_step_s = 0;  // a mean step of the baseline's first block; 0: it has none
  std::vector<gate::Turn> turns;
  std::vector<gate::Turn> confirmation;
  std::string unfit_because;      // why its times cannot be measured; "": they can
  std::string uncounted_control;  // why the control has no counts; "": it has, or was not asked
};

// Where a measurement is, for people.
struct GateProgress {
  std::string stage;  // "counts", "start 2 of at most 3", "confirmation 1 of 2"
  std::size_t done = 0;
  std::size_t of = 0;  // passes of this stage
};

class GateMeasurement {
 public:
  // `tick` is called after every pass. The seed decides the order of the arms in every start and
  // turn, and which process of the baseline is the control.
  GateMeasurement(ResidentArms& arms, const std::vector<GateRow>& rows,
                  const gate::Settings& settings, std::uint64_t seed,
                  std::function<void(const GateProgress&)> tick);

  // Runs one short block of every row in baseline and candidate. A block of the candidate that
  // fails is run once more in fresh ranks, and only the second failure counts.
  void count();

  // Runs one such block of the rows `which`, which differ, in the control, which is the baseline
  // once more. If the counts of the baseline change in its second start, the difference is chance
  // and not the change.
  void count_control(const std::vector<std::size_t>& which);

  // Returns what a start of the rows `which` will cost, from the steps of count(), without those
  // that it could not run.
  std::vector<gate::LaunchCost> costs(const std::vector<std::size_t>& which) const;

  // Starts the ranks of all arms afresh, in the order that is drawn, and takes `turns` turns of
  // each of the rows `which`, row by row in every turn. A row that fails in an arm takes no more
  // turns and is unfit; where the candidate fails again when it is tried once more, that is a
  // difference of counts.
  void start(const std::string& stage, const std::vector<std::size_t>& which, int turns);
  void confirm(const std::string& stage, const std::vector<std::size_t>& which, int turns);

  const std::vector<MeasuredRow>& rows() const { return rows_; }
  std::vector<gate::RowEvidence> evidence() const;
  // The turns of the rows `which`, the confirmation's last.
  gate::TurnFamily family(const std::vector<std::size_t>& which) const;
  gate::RowCounts counts(std::size_t row) const;
  int starts() const { return starts_; }

 private:
  using Turns = std::vector<gate::Turn> MeasuredRow::*;
  void count_in(gate::Arm arm, const std::vector<std::size_t>& which);
  void take_turns(const std::string& stage, const std::vector<std::size_t>& which, int turns,
                  Turns into);
  const gate::StartDraw& draw_start();
  void warm_up(const std::vector<std::size_t>& which, const gate::ArmOrder& order);
  std::map<std::size_t, int> draw_phases(const std::vector<std::size_t>& which);
  void take_turn(MeasuredRow& row, const gate::ArmOrder& order, Turns into);
  void note_switch(std::size_t launch, std::int64_t begin_ns, const Block& block);
  // Returns the block, or where it failed and the baseline did not what came of a second one.
  Block last_try(const MeasuredRow& row, gate::Arm arm, Block block);
  void remember(MeasuredRow& row, gate::Arm arm, const results::TrialRecord& trial);
  // Returns whether the block has times that stand; otherwise the row has taken its last turn.
  bool keep(MeasuredRow& row, gate::Arm arm, Block block);
  std::vector<std::vector<std::size_t>> by_launch(const std::vector<std::size_t>& which) const;

  ResidentArms& arms_;
  gate::Settings settings_;
  stats::Random random_;
  std::function<void(const GateProgress&)> tick_;
  GateProgress progress_;
  std::vector<MeasuredRow> rows_;
  std::map<std::size_t, double> start_s_;   // of a launch: until its ranks are up in an arm
  std::map<std::size_t, double> switch_s_;  // of a launch: what a trial takes beyond its steps
  int starts_ = 0;
  std::vector<gate::StartDraw> draws_;  // of all starts so far, and of the rest of the last three
};

}  // namespace gradsync::arms
