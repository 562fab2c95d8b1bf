// What takes turns in a gate, resident side by side: baseline, candidate, and the baseline once
// more as the control. Builds of this program (gate_arms.h) or training commands (job_arms.h).
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <string>

#include "harness/gate/counts.h"
#include "harness/gate/rows.h"
#include "harness/gate/turns.h"
#include "harness/results/records.h"

namespace gradsync::arms {

// A row, and where an arm has it.
struct GateRow {
  gate::Row row;
  std::size_t launch = 0;  // rows of one launch are resident together
  std::size_t cell = 0;    // of that launch
  int warmup_steps = 0;    // of its part
  gate::Peaks peaks = gate::Peaks::Exact;
};

// What a block of steps came to.
struct Block {
  results::TrialRecord trial;
  double elapsed_s = 0;  // of its timed steps, in the slowest rank; 0: it has none
  // Seconds of these steps in each phase, mean over ranks; empty: not known.
  std::map<std::string, double> phase_s = {};

  // Returns 0 without steps.
  double mean_step_s() const {
    return trial.step_s.empty() ? 0 : elapsed_s / static_cast<double>(trial.step_s.size());
  }
};

// Returns what the last `steps` steps spent in each phase, mean over `ranks`: records with phase_s,
// by phase and step. None where a rank does not know all of them.
template <typename Ranks>
std::map<std::string, double> mean_phases(const Ranks& ranks, std::size_t steps) {
  std::map<std::string, double> phase_s;
  const auto count = static_cast<double>(ranks.size());
  for (const auto& rank : ranks) {
    if (rank.phase_s.empty()) return {};
    for (const auto& [phase, step_s] : rank.phase_s) {
      if (step_s.size() < steps) return {};
      const auto timed = std::prev(step_s.end(), static_cast<std::ptrdiff_t>(steps));
      phase_s[phase] += std::accumulate(timed, step_s.end(), 0.0) / count;
    }
  }
  return phase_s;
}

class ResidentArms {
 public:
  virtual ~ResidentArms() = default;

  // The control is asked for nothing before.   Errors: as those of starting the others.
  virtual void start_control() = 0;

  // Which of the two processes of the baseline is the control: at first the one that
  // start_control() started, with `exchanged` the other one. Call it with all arms closed.
  virtual void exchange_baselines(bool exchanged) = 0;

  // Runs a block of `row` in `arm`, in whose ranks the row's launch is opened if it is not. What
  // could not be run is a record with the status and the reason.
  // Errors: run::Interrupted; ConfigError where an answer is none that an arm can give.
  virtual Block run(gate::Arm arm, const GateRow& row, int warmup_steps, int steps) = 0;

  // Ends the ranks of all arms: what is opened next starts afresh.
  virtual void close() = 0;
};

}  // namespace gradsync::arms
