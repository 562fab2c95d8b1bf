#include "tests/harness/gate/simulated_gate.h"

#include <cmath>

namespace gradsync::gate {

double SimulatedGate::uniform() {
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 53;
  return (static_cast<double>(random_.below(kSteps)) + 0.5) / static_cast<double>(kSteps);
}

// Box and Muller, 1958; the second of the pair is thrown away.
double SimulatedGate::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::acos(-1.0) * uniform());
}

SimulatedGate::ArmShifts SimulatedGate::draw_shifts(std::size_t row) {
  const bool is_odd = row == 0 && machine_.odd_start_sd > 0;
  const double sd = is_odd ? machine_.odd_start_sd : machine_.start_sd;
  ArmShifts shifts;
  for (double& shift : shifts.of) shift = sd / std::sqrt(2.0) * normal();
  return shifts;
}

void SimulatedGate::add_start(RowDifferences& row, double effect, int start, int turns,
                              const ArmShifts& shifts) {
  const double memory = machine_.drift_memory;
  double pace = normal();
  for (const ArmOrder& order : turn_orders(turns, random_)) {
    ByMeasure<std::array<double, kArms.size()>> log_time;
    for (const Arm arm : order) {
      const auto i = static_cast<std::size_t>(arm);
      if (machine_.drift_sd > 0) pace = memory * pace + std::sqrt(1 - memory * memory) * normal();
      const double low = (arm == Arm::Candidate ? std::log1p(effect) : 0) + shifts.of[i] +
                         machine_.drift_sd * pace + machine_.turn_sd / std::sqrt(2.0) * normal();
      const double stall = uniform() < machine_.stalled ? -std::log(uniform()) / 3 : 0;
      log_time[Measure::Low][i] = low + stall;
      log_time[Measure::Mean][i] = low + stall + machine_.mean_sd / std::sqrt(2.0) * normal();
    }
    for (const Measure measure : kMeasures) {
      const auto& of = log_time[measure];
      const double baseline = of[static_cast<std::size_t>(Arm::Baseline)];
      const double control = of[static_cast<std::size_t>(Arm::Control)];
      row[measure].measure = measure;
      row[measure].start.push_back(start);
      row[measure].candidate.push_back(of[static_cast<std::size_t>(Arm::Candidate)] -
                                       (baseline + control) / 2);
      row[measure].control.push_back(control - baseline);
    }
  }
}

std::vector<RowDifferences> SimulatedGate::measure(int turns, int start_turns) {
  std::vector<RowDifferences> rows(effects_.size());
  for (int start = 0; start * start_turns < turns; ++start) {
    ArmShifts shifts;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (row == 0 || !machine_.starts_are_shared) shifts = draw_shifts(row);
      add_start(rows[row], effects_[row], start, start_turns, shifts);
    }
  }
  return rows;
}

Decision SimulatedGate::run(const Settings& settings) {
  const int start_turns = settings.start_turns;
  std::vector<RowEvidence> rows;
  for (RowDifferences& row : measure(settings.looks.back().turns, start_turns)) {
    rows.push_back({std::move(row), {}, ""});
  }
  return decide_with_confirmations(rows, settings, [&](std::size_t row) {
    return measure(settings.confirmation_turns, start_turns)[row];
  });
}

Decision decide_with_confirmations(std::vector<RowEvidence>& rows, const Settings& settings,
                                   const std::function<RowDifferences(std::size_t)>& measure) {
  while (true) {
    Decision decision = decide(rows, settings);
    bool confirms = false;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!decision.rows[row].needs_confirmation) continue;
      rows[row].confirmation = measure(row);
      confirms = true;
    }
    if (!confirms) return decision;
  }
}

}  // namespace gradsync::gate
