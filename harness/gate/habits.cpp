#include "harness/gate/habits.h"

#include "harness/stats/rank_sum.h"

namespace gradsync::gate {
namespace {

std::vector<double> pooled_steps(const RowTurns& row, Arm arm) {
  std::vector<double> pooled;
  for (const Turn& turn : row.turns) {
    const std::vector<double>& steps = turn.of(arm);
    pooled.insert(pooled.end(), steps.begin(), steps.end());
  }
  return pooled;
}

double mean_step_s(const RowTurns& row, Arm arm) {
  double elapsed_s = 0;
  double steps = 0;
  for (const Turn& turn : row.turns) {
    const auto of_turn = static_cast<double>(turn.of(arm).size());
    elapsed_s += turn.mean_step_s(arm) * of_turn;
    steps += of_turn;
  }
  return elapsed_s / steps;
}

bool lies_above(std::vector<double> candidate, const std::vector<double>& baseline,
                const HabitTerms& terms) {
  for (double& value : candidate) value /= 1 + terms.margin;
  return stats::rank_sum_p(candidate, baseline) < terms.level;
}

}  // namespace

HabitTerms habit_terms(const Settings& settings, std::size_t rows) {
  return {settings.margin, settings.alpha / static_cast<double>(rows)};
}

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all{{"fixed threshold", fixed_threshold_flags},
                                      {"sequential arms", sequential_arms_flag},
                                      {"pooled Mann-Whitney", pooled_steps_flag}};
  return all;
}

bool fixed_threshold_flags(const RowTurns& row, const HabitTerms& terms) {
  if (row.turns.empty()) return false;
  return mean_step_s(row, Arm::Candidate) > (1 + terms.margin) * mean_step_s(row, Arm::Baseline);
}

bool sequential_arms_flag(const RowTurns& row, const HabitTerms& terms) {
  const std::size_t half = row.turns.size() / 2;
  std::vector<double> baseline;
  std::vector<double> candidate;
  for (std::size_t i = 0; i < half; ++i) {
    baseline.push_back(row.turns[i].mean_step_s(Arm::Baseline));
    candidate.push_back(row.turns[row.turns.size() - half + i].mean_step_s(Arm::Candidate));
  }
  return lies_above(candidate, baseline, terms);
}

bool pooled_steps_flag(const RowTurns& row, const HabitTerms& terms) {
  return lies_above(pooled_steps(row, Arm::Candidate), pooled_steps(row, Arm::Baseline), terms);
}

}  // namespace gradsync::gate
