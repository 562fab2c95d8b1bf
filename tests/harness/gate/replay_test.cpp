#include "harness/gate/replay.h"

#include <gmock/gmock.h>

#include <set>

#include "harness/base/errors.h"
#include "tests/harness/gate/synthetic_turns.h"

namespace gradsync::gate {
namespace {

using ::testing::Each;

constexpr int kLookTurns = 24;
constexpr int kStartsOfLooks = 6;

TEST(Replay, TheSameWorkPassesAndPlainlyMoreIsARegression) {
  const GateOutcome same = replay(synthetic_family({}), Settings{});
  EXPECT_EQ(same.verdict, Verdict::Pass);
  EXPECT_THAT(same.rows, Each(Verdict::Pass));
  const GateOutcome more = replay(synthetic_family({.extra_work = 0.1}), Settings{});
  EXPECT_EQ(more.verdict, Verdict::Regression);
  EXPECT_THAT(more.rows, Each(Verdict::Regression));
  EXPECT_THAT(more.turns, Each(testing::Le(kLookTurns)));
}

// Starts with 10 % of extra work, then starts with none, as one pool.
StartPool slower_then_equal() {
  StartPool pool = synthetic_pool({.extra_work = 0.1});
  const StartPool equal = synthetic_pool({.seed = 2});
  pool.starts.insert(pool.starts.end(), equal.starts.begin(), equal.starts.end());
  return pool;
}

TEST(Replay, WhatFreshStartsDoNotConfirmIsNoRegression) {
  const StartPool pool = slower_then_equal();
  const GateOutcome once =
      replay(composed_of(pool, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13}), Settings{});
  EXPECT_THAT(once.rows, Each(Verdict::Undecided));
  const GateOutcome twice = replay(composed_of(pool, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), Settings{});
  EXPECT_THAT(twice.rows, Each(Verdict::Regression));
}

TEST(Replay, HabitsSeeTheTurnsOfTheLooksAndNotTheConfirmation) {
  const StartPool pool = slower_then_equal();
  const GateOutcome slower_at_last =
      replay(composed_of(pool, {10, 11, 12, 13, 14, 15, 0, 1, 2, 3}), Settings{});
  EXPECT_THAT(slower_at_last.rows, Each(Verdict::Pass));
  ASSERT_EQ(slower_at_last.habits.size(), 3U);
  EXPECT_THAT(slower_at_last.habits[0], Each(false)) << "fixed 5 %, of 24 equal turns";
  const GateOutcome slower =
      replay(composed_of(pool, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13}), Settings{});
  EXPECT_THAT(slower.habits, Each(Each(true)));
}

TEST(Replay, ADriftingMachineMisleadsSequentialArmsAlone) {
  const GateOutcome outcome = replay(synthetic_family({.drift_per_turn = 0.005}), Settings{});
  EXPECT_THAT(outcome.rows, Each(Verdict::Pass));
  EXPECT_THAT(outcome.habits[0], Each(false)) << "fixed 5 %";
  EXPECT_THAT(outcome.habits[1], Each(true)) << "sequential arms";
}

TEST(Replay, TooFewTurnsAreABugOfTheCaller) {
  EXPECT_THROW(replay(synthetic_family({.starts = kStartsOfLooks - 1}), Settings{}), InternalError);
  EXPECT_THROW(replay(synthetic_family({.extra_work = 0.1, .starts = kStartsOfLooks}), Settings{}),
               InternalError)
      << "nothing to confirm in";
}

TEST(ReplayIndependent, UsesEachStartOnceAndInOrder) {
  const StartPool pool = synthetic_pool({.extra_work = 0.1, .starts = 24});
  const Replay replayed = replay_independent(pool, Settings{});
  EXPECT_EQ(replayed.extra_work, 0.1);
  EXPECT_FALSE(replayed.reuses_starts);
  EXPECT_EQ(replayed.starts, 20U) << "four of the 24 are left over";
  ASSERT_EQ(replayed.gates.size(), 2U);
  const GateOutcome second =
      replay(composed_of(pool, {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}), Settings{});
  EXPECT_EQ(replayed.gates[1].rows, second.rows);
  EXPECT_EQ(replayed.gates[1].turns, second.turns);
}

TEST(ReplayIndependent, GatesShareNothing) {
  // Where the second ten starts have no extra work, the second gate alone passes.
  const Replay replayed = replay_independent(slower_then_equal(), Settings{});
  ASSERT_EQ(replayed.gates.size(), 2U);
  EXPECT_EQ(replayed.gates[0].verdict, Verdict::Regression);
  EXPECT_EQ(replayed.gates[1].verdict, Verdict::Pass);
}

TEST(ReplayReused, DrawsDifferentStartsForEachGate) {
  stats::Random random(7);
  const Replay replayed = replay_reused(slower_then_equal(), Settings{}, 12, random);
  EXPECT_TRUE(replayed.reuses_starts);
  EXPECT_EQ(replayed.starts, 20U);
  ASSERT_EQ(replayed.gates.size(), 12U);
  std::set<std::vector<bool>> flagged;
  for (const GateOutcome& gate : replayed.gates) flagged.insert(gate.habits.front());
  EXPECT_GT(flagged.size(), 1U) << "slower starts are many in one gate and few in another";
}

TEST(ReplayReused, TheSameSeedGivesTheSameGates) {
  const auto habits_of = [](std::uint64_t seed) {
    stats::Random random(seed);
    std::vector<std::vector<std::vector<bool>>> all;
    const StartPool pool = synthetic_pool({.starts = 14, .drift_per_turn = 0.0003});
    for (const GateOutcome& gate : replay_reused(pool, Settings{}, 20, random).gates) {
      all.push_back(gate.habits);
    }
    return all;
  };
  EXPECT_EQ(habits_of(1), habits_of(1));
  EXPECT_NE(habits_of(1), habits_of(2));
}

TEST(ReplayReused, FewerStartsThanAGateTakesGiveNone) {
  stats::Random random(1);
  const StartPool pool = synthetic_pool({.starts = 9});
  EXPECT_TRUE(replay_reused(pool, Settings{}, 3, random).gates.empty());
  EXPECT_TRUE(replay_independent(pool, Settings{}).gates.empty());
}

}  // namespace
}  // namespace gradsync::gate
