#include "harness/gate/habits.h"

#include <cstddef>

#include "harness/stats/rank_sum.h"
#include "harness/stats/sample.h"

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

}  // namespace

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all{{"fixed 5 %", fixed_threshold_flags},
                                      {"sequential arms", sequential_arms_flag},
                                      {"pooled Mann-Whitney", pooled_steps_flag}};
  return all;
}

bool fixed_threshold_flags(const RowTurns& row) {
  if (row.turns.empty()) return false;
  const double ratio = stats::mean(pooled_steps(row, Arm::Candidate)) /
                       stats::mean(pooled_steps(row, Arm::Baseline));
  return ratio > 1 + kFixedThreshold;
}

bool sequential_arms_flag(const RowTurns& row) {
  const std::size_t half = row.turns.size() / 2;
  std::vector<double> baseline;
  std::vector<double> candidate;
  for (std::size_t i = 0; i < half; ++i) {
    baseline.push_back(stats::mean(row.turns[i].of(Arm::Baseline)));
    candidate.push_back(stats::mean(row.turns[row.turns.size() - half + i].of(Arm::Candidate)));
  }
  return stats::rank_sum_p(candidate, baseline) < kHabitAlpha;
}

bool pooled_steps_flag(const RowTurns& row) {
  return stats::rank_sum_p(pooled_steps(row, Arm::Candidate), pooled_steps(row, Arm::Baseline)) <
         kHabitAlpha;
}

}  // namespace gradsync::gate
