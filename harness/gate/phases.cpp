#include "harness/gate/phases.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "harness/stats/error_rates.h"
#include "harness/stats/sample.h"

namespace gradsync::gate {
namespace {

// One phase over the turns of a row; the lists are of one length.
struct PhaseTurns {
  std::vector<int> start;
  std::vector<double> longer;  // as a logarithm (phases.h)
  std::vector<double> share;   // of the baseline's step
};

void add_turn(PhaseTurns& phase, const Turn& turn, const ByArm<double>& phase_s) {
  const auto in = [&](Arm arm) { return phase_s[static_cast<std::size_t>(arm)]; };
  const auto steps = static_cast<double>(turn.of(Arm::Baseline).size());
  const double block_s =
      steps * (turn.mean_step_s(Arm::Baseline) + turn.mean_step_s(Arm::Control)) / 2;
  const double candidate = in(Arm::Candidate);
  const double baseline = (in(Arm::Baseline) + in(Arm::Control)) / 2;
  phase.start.push_back(turn.start);
  phase.longer.push_back(std::log1p((candidate - baseline) / block_s));
  phase.share.push_back(baseline / block_s);
}

bool takes_time(const std::vector<Turn>& turns, const std::string& phase) {
  return std::ranges::any_of(turns, [&](const Turn& turn) {
    return std::ranges::any_of(turn.phase_s.at(phase), [](double spent_s) { return spent_s > 0; });
  });
}

std::map<std::string, PhaseTurns> by_phase(const std::vector<Turn>& turns) {
  std::map<std::string, PhaseTurns> phases;
  if (turns.empty()) return phases;
  const auto knows_all = [&](const std::string& phase) {
    return std::ranges::all_of(turns,
                               [&](const Turn& turn) { return turn.phase_s.contains(phase); });
  };
  for (const auto& [phase, first_s] : turns.front().phase_s) {
    if (!knows_all(phase)) return {};
    if (!takes_time(turns, phase)) continue;
    for (const Turn& turn : turns) add_turn(phases[phase], turn, turn.phase_s.at(phase));
  }
  return phases;
}

}  // namespace

std::vector<PhaseEffect> phase_effects(const std::vector<Turn>& turns, Measure measure) {
  std::vector<PhaseEffect> effects;
  std::vector<double> p;
  for (const auto& [phase, of_phase] : by_phase(turns)) {
    const std::vector<double> shifts = shifts_of(of_phase.longer, of_phase.start, measure);
    const stats::Variance own = own_spread(shifts);
    effects.push_back({phase, stats::mean(of_phase.share), *effect_of(shifts, own), std::nullopt});
    p.push_back(above_p(shifts, 0, own));
  }
  p = stats::holm_adjusted(p);
  for (std::size_t i = 0; i < effects.size(); ++i) effects[i].p = p[i];
  std::ranges::stable_sort(effects, std::ranges::greater{},
                           [](const PhaseEffect& each) { return each.effect.value; });
  return effects;
}

void add_phases(RowDecision& row, const std::vector<Turn>& turns,
                const std::vector<Turn>& confirmation, const Settings& settings) {
  const bool is_slower =
      row.verdict == Verdict::Regression && row.grounds.reason == RowReason::Slower;
  const bool is_tested = is_slower && !confirmation.empty();
  row.phases = phase_effects(is_tested ? confirmation : turns, row.grounds.measure);
  if (is_tested) {
    row.reason = sentence(row, settings);
  } else {
    for (PhaseEffect& phase : row.phases) phase.p.reset();
  }
}

}  // namespace gradsync::gate
