#include "harness/gate/habits.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/harness/gate/synthetic_turns.h"

namespace gradsync::gate {
namespace {

// Blocks of twenty steps about these means, in steps so small that blocks keep their order.
RowTurns row_of_means(const std::vector<double>& baseline, const std::vector<double>& candidate) {
  const auto steps = [](double mean) {
    std::vector<double> values;
    for (int i = 0; i < 20; ++i) values.push_back(mean + 1e-6 * (i - 9.5));
    return values;
  };
  RowTurns row;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    Turn& turn = row.turns.emplace_back();
    turn.of(Arm::Baseline) = steps(baseline[i]);
    turn.of(Arm::Candidate) = steps(candidate[i]);
    turn.of(Arm::Control) = steps(baseline[i]);
  }
  return row;
}

// The margin of the gate, and its alpha for one row.
constexpr HabitTerms kTerms{.margin = 0.01, .level = 0.01};

TEST(FixedThreshold, ComparesMeansWithTheMargin) {
  EXPECT_FALSE(fixed_threshold_flags(row_of_means({1, 2, 3}, {1.009, 2.018, 3.027}), kTerms));
  EXPECT_TRUE(fixed_threshold_flags(row_of_means({1, 2, 3}, {1.011, 2.022, 3.033}), kTerms));
  EXPECT_TRUE(fixed_threshold_flags(row_of_means({1, 1, 1}, {1, 1, 1.2}), kTerms))
      << "one stall will do";
  RowTurns row = row_of_means({1, 1, 1}, {1.1, 1.1, 1.1});
  for (Turn& turn : row.turns) turn.elapsed_s = {20, 20, 20};
  EXPECT_FALSE(fixed_threshold_flags(row, kTerms)) << "as much time passed in both";
}

TEST(HabitTerms, AreTheGatesWithAlphaSharedOutOverTheRows) {
  const HabitTerms terms = habit_terms(Settings{}, 16);
  EXPECT_EQ(terms.margin, 0.01);
  EXPECT_DOUBLE_EQ(terms.level, 0.01 / 16);
}

TEST(SequentialArms, TakesTheDriftForTheChange) {
  // The same work in both arms of every turn, while the machine grows 1 % slower in each.
  const std::vector<double> drift{1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09};
  const RowTurns row = row_of_means(drift, drift);
  EXPECT_TRUE(sequential_arms_flag(row, kTerms));
  EXPECT_FALSE(pooled_steps_flag(row, kTerms));
  EXPECT_FALSE(fixed_threshold_flags(row, kTerms));
}

TEST(SequentialArms, ComparesEarlyBlocksWithLateOnes) {
  // Only the baseline's first half and the candidate's second half are looked at.
  const RowTurns slower = row_of_means({1, 1.01, 1.02, 1.03, 1.04, 9, 9, 9, 9, 9},
                                       {9, 9, 9, 9, 9, 1.06, 1.07, 1.08, 1.09, 1.10});
  EXPECT_TRUE(sequential_arms_flag(slower, kTerms)) << "5 above 5: p = 1 / 252";
  EXPECT_FALSE(sequential_arms_flag(slower, habit_terms(Settings{}, 16))) << "of 16 rows: 1 / 1600";
  EXPECT_FALSE(sequential_arms_flag(slower, {.margin = 0.10, .level = 0.01}));
  const RowTurns few = row_of_means({1, 1.01, 1.02, 9, 9, 9}, {9, 9, 9, 1.05, 1.06, 1.07});
  EXPECT_FALSE(sequential_arms_flag(few, kTerms)) << "3 above 3: p = 1 / 20";
}

TEST(PooledSteps, TakesTheMoodOfABlockForTwentyAnswers) {
  // Of the nine pairs of blocks the candidate is slower in six: by three blocks each that is p =
  // 7 / 20. By sixty steps each it is p = 0.0008.
  const RowTurns row = row_of_means({1.00, 1.03, 1.01}, {1.02, 1.04, 1.005});
  EXPECT_TRUE(pooled_steps_flag(row, {.margin = 0, .level = 0.01}));
  EXPECT_FALSE(pooled_steps_flag(row, {.margin = 0.05, .level = 0.01}));
  EXPECT_FALSE(fixed_threshold_flags(row, kTerms));
}

TEST(Habits, NoneFlagsWithoutTurnsAndAllAreNamed) {
  std::vector<std::string> names;
  for (const Habit& habit : habits()) {
    names.push_back(habit.name);
    EXPECT_FALSE(habit.flags(RowTurns{}, kTerms)) << habit.name;
  }
  EXPECT_THAT(names,
              testing::ElementsAre("fixed threshold", "sequential arms", "pooled Mann-Whitney"));
}

TEST(Habits, AllFindWhatIsPlain) {
  const RowTurns row = synthetic_family({.extra_work = 0.2}).rows.front();
  for (const Habit& habit : habits()) EXPECT_TRUE(habit.flags(row, kTerms)) << habit.name;
}

}  // namespace
}  // namespace gradsync::gate
