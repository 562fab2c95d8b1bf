// Gates whose truth is known: turns drawn from a seed, decided as real ones are.
//
// A block's logarithm of time is the machine's drift, the shift that its arm drew at its start, and
// noise of its own; the candidate's has log(1 + effect) more. The mean has noise and stalls beside
// that. Every number is the deviation of a difference between two arms, as the gate reports it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/gate/verdict.h"
#include "harness/stats/random.h"

namespace gradsync::gate {

struct Machine {
  double turn_sd = 0.01;           // of one turn about its start's shift, low quantile
  double mean_sd = 0.01;           // what the mean has beside it
  double start_sd = 0;             // of a start's shift
  bool starts_are_shared = false;  // one shift per arm and start for all rows, not one for each row
  double odd_start_sd = 0;         // of the first row alone, where it is not 0
  double stalled = 0;              // share of blocks that stall; by a third on average
  double drift_sd = 0;             // of the machine's pace
  double drift_memory = 0;         // of one block's pace for the one before
};

class SimulatedGate {
 public:
  // One row for each of `effects`, which are true shares: 0.03 is 3 % slower.
  SimulatedGate(std::vector<double> effects, Machine machine, std::uint64_t seed)
      : effects_(std::move(effects)), machine_(machine), random_(seed) {}

  // Returns so many turns of every row, in starts of `start_turns`.
  std::vector<RowDifferences> measure(int turns, int start_turns);

  // Returns the decision after all looks and the confirmations.
  Decision run(const Settings& settings);

 private:
  struct ArmShifts {
    std::array<double, kArms.size()> of{};
  };

  double normal();   // mean 0, deviation 1
  double uniform();  // in (0, 1)
  ArmShifts draw_shifts(std::size_t row);
  void add_start(RowDifferences& row, double effect, int start, int turns, const ArmShifts& shifts);

  std::vector<double> effects_;
  Machine machine_;
  stats::Random random_;
};

// Returns the decision on these rows, each measured once more where it needs a confirmation.
Decision decide_with_confirmations(std::vector<RowEvidence>& rows, const Settings& settings,
                                   const std::function<RowDifferences(std::size_t)>& measure);

}  // namespace gradsync::gate
