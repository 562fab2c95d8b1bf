#include "harness/gate/replay.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "harness/base/errors.h"
#include "tests/harness/gate/synthetic_turns.h"

namespace gradsync::gate {
namespace {

using ::testing::Each;

constexpr int kLookTurns = 24;
constexpr int kStartsOfLooks = 6;

TEST(Replay, TheSameWorkPassesAndPlainlyMoreIsARegression) {
  const GateOutcome same = replay(synthetic_family({}), ten_starts());
  EXPECT_EQ(same.verdict, Verdict::Pass);
  EXPECT_THAT(same.rows, Each(Verdict::Pass));
  const GateOutcome more = replay(synthetic_family({.extra_work = 0.1}), ten_starts());
  EXPECT_EQ(more.verdict, Verdict::Regression);
  EXPECT_THAT(more.rows, Each(Verdict::Regression));
  EXPECT_THAT(more.turns, Each(testing::Le(kLookTurns)));
}

// The first `count` starts of one, then the first ones of the other, ten in all.
TurnFamily joined(const TurnFamily& first, int count, const TurnFamily& second) {
  TurnFamily gate = first;
  for (std::size_t row = 0; row < gate.rows.size(); ++row) {
    std::vector<Turn>& turns = gate.rows[row].turns;
    std::erase_if(turns, [&](const Turn& turn) { return turn.start >= count; });
    for (Turn turn : second.rows[row].turns) {
      turn.start += count;
      if (turn.start < 10) turns.push_back(turn);
    }
  }
  return gate;
}

TEST(Replay, WhatFreshStartsDoNotConfirmIsNoRegression) {
  const TurnFamily slower = synthetic_family({.extra_work = 0.1});
  const GateOutcome once =
      replay(joined(slower, kStartsOfLooks, synthetic_family({.seed = 2})), ten_starts());
  EXPECT_THAT(once.rows, Each(Verdict::Undecided));
  EXPECT_THAT(replay(slower, ten_starts()).rows, Each(Verdict::Regression));
}

TEST(Replay, LooksSeeTheirOwnTurnsAndNotTheConfirmation) {
  const TurnFamily slower = synthetic_family({.extra_work = 0.1});
  const TurnFamily equal = synthetic_family({.seed = 2});
  const GateOutcome slower_at_last = replay(joined(equal, kStartsOfLooks, slower), ten_starts());
  EXPECT_THAT(slower_at_last.rows, Each(Verdict::Pass));
}

TEST(Replay, ADriftingMachineMisleadsNoRow) {
  const GateOutcome outcome = replay(synthetic_family({.drift_per_turn = 0.005}), ten_starts());
  EXPECT_THAT(outcome.rows, Each(Verdict::Pass));
}

TEST(Replay, TooFewTurnsAreABugOfTheCaller) {
  EXPECT_THROW(replay(synthetic_family({.starts = kStartsOfLooks - 1}), ten_starts()),
               InternalError);
  EXPECT_THROW(
      replay(synthetic_family({.extra_work = 0.1, .starts = kStartsOfLooks}), ten_starts()),
      InternalError)
      << "nothing to confirm in";
}

TEST(Relabelled, WhoeverHadAPlaceHasItsTurnsUnderAnotherName) {
  TurnFamily gate = synthetic_family({});
  for (RowTurns& row : gate.rows) {
    for (Turn& turn : row.turns) turn.phase_s["forward"] = {1, 2, 3};
  }
  stats::Random random(3);
  const TurnFamily other = relabelled(gate, random);
  ASSERT_EQ(other.starts.size(), 10U);
  for (std::size_t start = 0; start < 9; start += 3) {
    std::set<Arm> first;
    for (std::size_t i = start; i < start + 3; ++i) first.insert(other.starts[i].order[0]);
    EXPECT_EQ(first.size(), 3U) << "drawn as a gate draws";
  }
  std::set<int> changed;
  for (std::size_t row = 0; row < gate.rows.size(); ++row) {
    for (std::size_t i = 0; i < gate.rows[row].turns.size(); ++i) {
      const Turn& was = gate.rows[row].turns[i];
      const Turn& is = other.rows[row].turns[i];
      const auto start = static_cast<std::size_t>(was.start);
      for (std::size_t place = 0; place < kArms.size(); ++place) {
        const Arm old_name = gate.starts[start].order[place];
        const Arm new_name = other.starts[start].order[place];
        EXPECT_EQ(is.of(new_name), was.of(old_name)) << "turn " << i << ", place " << place;
        EXPECT_EQ(is.phase_s.at("forward")[static_cast<std::size_t>(new_name)],
                  was.phase_s.at("forward")[static_cast<std::size_t>(old_name)]);
        const auto in_turn = std::find(was.order.begin(), was.order.end(), old_name);
        EXPECT_EQ(is.order[static_cast<std::size_t>(in_turn - was.order.begin())], new_name);
        if (old_name != new_name) changed.insert(was.start);
      }
    }
  }
  EXPECT_GT(changed.size(), 5U);
}

TEST(ReplayRelabelled, APlaceThatIsFasterAlarmsInNoLabelling) {
  const Synthetic lucky{.rows = 1, .third_place = 0.05};
  const Replay replayed =
      replay_relabelled(synthetic_pool(lucky), ten_starts(), {.labellings = 60});
  ASSERT_EQ(replayed.gates.size(), 1U);
  ASSERT_EQ(replayed.gates[0].size(), 60U);
  int alarms = 0;
  for (const GateOutcome& outcome : replayed.gates[0]) {
    alarms += outcome.rows[0] == Verdict::Regression ? 1 : 0;
    EXPECT_FALSE(outcome.slowed_row.has_value());
  }
  EXPECT_EQ(alarms, 0) << "in every three starts every arm came up third once";
}

TEST(ReplayRelabelled, EachGateHasItsOwnLabellingsAndTheSameSeedTheSame) {
  const auto rows_of = [](std::uint64_t seed, std::size_t gates) {
    std::vector<std::vector<Verdict>> all;
    const GatePool pool = synthetic_pool({.rows = 8, .starts = 20, .start_sd = 0.012});
    const ReplayDepth depth{.labellings = 30, .seed = seed, .gates = gates};
    const Replay replayed = replay_relabelled(pool, ten_starts(), depth);
    for (const GateOutcome& gate : replayed.gates.back()) all.push_back(gate.rows);
    return all;
  };
  EXPECT_EQ(rows_of(1, 10), rows_of(1, 2)) << "the second gate's, whatever is replayed of others";
  EXPECT_NE(rows_of(1, 2), rows_of(2, 2));
  EXPECT_NE(rows_of(1, 1), rows_of(1, 2));
}

TEST(ReplayOneRowSlowed, EachRowIsTheSlowedOneOnce) {
  const GatePool slowed = synthetic_pool({.extra_work = 0.1, .rows = 3, .starts = 20});
  const GatePool equal = synthetic_pool({.rows = 3, .starts = 10, .seed = 2});
  const Replay replayed = replay_one_row_slowed(slowed, equal, ten_starts());
  EXPECT_EQ(replayed.extra_work, 0.1);
  EXPECT_EQ(replayed.starts, 20U);
  ASSERT_EQ(replayed.gates.size(), 1U) << "no start without extra work is in two gates";
  ASSERT_EQ(replayed.gates[0].size(), 3U);
  for (std::size_t row = 0; row < 3; ++row) {
    const GateOutcome& outcome = replayed.gates[0][row];
    EXPECT_EQ(outcome.slowed_row, row);
    for (std::size_t other = 0; other < 3; ++other) {
      EXPECT_EQ(outcome.rows[other], other == row ? Verdict::Regression : Verdict::Pass);
    }
  }
}

TEST(ReplayOneRowSlowed, RowsThatDoNotFitAreABugOfTheCaller) {
  const TurnFamily equal = synthetic_family({.rows = 2});
  EXPECT_THROW(with_slowed_row(equal, synthetic_family({.rows = 3}), 0), InternalError);
  EXPECT_THROW(with_slowed_row(equal, synthetic_family({.starts = 9}), 0), InternalError);
  EXPECT_THROW(with_slowed_row(equal, equal, 2), InternalError);
}

}  // namespace
}  // namespace gradsync::gate
