#include "harness/gate/replay.h"

#include <iterator>
#include <numeric>
#include <utility>

#include "harness/base/errors.h"
#include "harness/gate/habits.h"
#include "harness/gate/row_decision.h"

namespace gradsync::gate {
namespace {

// The row with `count` of its turns, from the `first` on.
RowTurns some_turns(const RowTurns& row, int first, int count) {
  GRADSYNC_CHECK(row.turns.size(), >=, static_cast<std::size_t>(first + count));
  const auto begin = std::next(row.turns.begin(), first);
  return {row.part, row.cell, {begin, std::next(begin, count)}};
}

Decision decide_and_confirm(const TurnFamily& gate, const Settings& settings) {
  const int turns = settings.looks.back().turns;
  std::vector<RowEvidence> evidence;
  for (const RowTurns& row : gate.rows) {
    const std::vector<Turn> looked_at = some_turns(row, 0, turns).turns;
    evidence.push_back({differences(looked_at, settings.low_quantile), {}, ""});
  }
  Decision decision = decide(evidence, settings);
  bool confirms = false;
  for (std::size_t i = 0; i < gate.rows.size(); ++i) {
    if (!decision.rows[i].needs_confirmation) continue;
    const RowTurns fresh = some_turns(gate.rows[i], turns, settings.confirmation_turns);
    evidence[i].confirmation = differences(fresh.turns, settings.low_quantile);
    confirms = true;
  }
  return confirms ? decide(evidence, settings) : decision;
}

}  // namespace

GateOutcome replay(const TurnFamily& gate, const Settings& settings) {
  const Decision decision = decide_and_confirm(gate, settings);
  GateOutcome outcome;
  outcome.verdict = decision.verdict;
  for (const RowDecision& row : decision.rows) {
    outcome.rows.push_back(row.verdict);
    outcome.turns.push_back(row.turns);
  }
  for (const Habit& habit : habits()) {
    std::vector<bool>& flags = outcome.habits.emplace_back();
    for (const RowTurns& row : gate.rows) {
      flags.push_back(habit.flags(some_turns(row, 0, settings.looks.back().turns)));
    }
  }
  return outcome;
}

Replay replay_independent(const StartPool& pool, const Settings& settings) {
  Replay replayed{pool.frame.extra_work, false, 0, {}};
  std::vector<std::size_t> starts(starts_per_gate(settings));
  while (replayed.starts + starts.size() <= pool.starts.size()) {
    std::iota(starts.begin(), starts.end(), replayed.starts);
    replayed.gates.push_back(replay(composed_of(pool, starts), settings));
    replayed.starts += starts.size();
  }
  return replayed;
}

Replay replay_reused(const StartPool& pool, const Settings& settings, int gates,
                     stats::Random& random) {
  Replay replayed{pool.frame.extra_work, true, pool.starts.size(), {}};
  const std::size_t needed = starts_per_gate(settings);
  if (pool.starts.size() < needed) return replayed;
  std::vector<std::size_t> order(pool.starts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int gate = 0; gate < gates; ++gate) {
    // The first steps of a Fisher-Yates shuffle, whatever order the last gate left behind.
    for (std::size_t i = 0; i < needed; ++i) {
      std::swap(order[i], order[i + random.below(order.size() - i)]);
    }
    const auto end = std::next(order.begin(), static_cast<std::ptrdiff_t>(needed));
    replayed.gates.push_back(replay(composed_of(pool, {order.begin(), end}), settings));
  }
  return replayed;
}

}  // namespace gradsync::gate
