#include "harness/gate/replay.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "harness/base/errors.h"
#include "harness/gate/row_decision.h"

namespace gradsync::gate {
namespace {

// The row with `count` of its turns, from the `first` on.
RowTurns some_turns(const RowTurns& row, int first, int count) {
  GRADSYNC_CHECK(row.turns.size(), >=, static_cast<std::size_t>(first + count));
  const auto begin = std::next(row.turns.begin(), first);
  return {row.part, row.cell, {begin, std::next(begin, count)}};
}

Decision decide_and_confirm(const TurnFamily& gate, const std::vector<RowTurns>& looked_at,
                            const Settings& settings) {
  std::vector<RowEvidence> evidence;
  for (const RowTurns& row : looked_at) {
    evidence.push_back({differences(row.turns, settings.low_quantile), {}, ""});
  }
  while (true) {
    Decision decision = decide(evidence, settings);
    bool confirms = false;
    for (std::size_t i = 0; i < gate.rows.size(); ++i) {
      if (!decision.rows[i].needs_confirmation) continue;
      const RowTurns fresh =
          some_turns(gate.rows[i], settings.looks.back().turns, settings.confirmation_turns);
      evidence[i].confirmation = differences(fresh.turns, settings.low_quantile);
      confirms = true;
    }
    if (!confirms) return decision;
  }
}

// Who is called what from now on: by the role that it had.
using Roles = std::array<Arm, kArms.size()>;

Roles roles_of(const ArmOrder& were, const ArmOrder& are) {
  Roles roles{};
  for (std::size_t place = 0; place < were.size(); ++place) {
    roles[static_cast<std::size_t>(were[place])] = are[place];
  }
  return roles;
}

Turn called(const Turn& turn, const Roles& roles) {
  Turn other;
  other.start = turn.start;
  for (std::size_t place = 0; place < turn.order.size(); ++place) {
    other.order[place] = roles[static_cast<std::size_t>(turn.order[place])];
  }
  for (const Arm arm : kArms) {
    const auto was = static_cast<std::size_t>(arm);
    const auto is = static_cast<std::size_t>(roles[was]);
    other.step_s[is] = turn.step_s[was];
    other.elapsed_s[is] = turn.elapsed_s[was];
    for (const auto& [phase, by_arm] : turn.phase_s) other.phase_s[phase][is] = by_arm[was];
  }
  return other;
}

StartDraw draw_of(const TurnFamily& gate, std::size_t start) {
  return start < gate.starts.size() ? gate.starts[start] : StartDraw{};
}

}  // namespace

GateOutcome replay(const TurnFamily& gate, const Settings& settings) {
  std::vector<RowTurns> looked_at;
  for (const RowTurns& row : gate.rows) {
    looked_at.push_back(some_turns(row, 0, settings.looks.back().turns));
  }
  const Decision decision = decide_and_confirm(gate, looked_at, settings);
  GateOutcome outcome;
  outcome.verdict = decision.verdict;
  for (const RowDecision& row : decision.rows) {
    outcome.rows.push_back(row.verdict);
    outcome.turns.push_back(row.turns);
  }
  return outcome;
}

TurnFamily relabelled(const TurnFamily& gate, stats::Random& random) {
  TurnFamily other = gate;
  other.starts = start_draws(start_count(gate), random);
  std::vector<Roles> roles;
  for (std::size_t start = 0; start < other.starts.size(); ++start) {
    roles.push_back(roles_of(draw_of(gate, start).order, other.starts[start].order));
  }
  for (RowTurns& row : other.rows) {
    for (Turn& turn : row.turns) turn = called(turn, roles[static_cast<std::size_t>(turn.start)]);
  }
  return other;
}

TurnFamily with_slowed_row(const TurnFamily& equal, const TurnFamily& slowed, std::size_t row) {
  GRADSYNC_CHECK(row, <, equal.rows.size());
  GRADSYNC_CHECK(slowed.rows.size(), ==, equal.rows.size());
  GRADSYNC_CHECK(slowed.rows[row].turns.size(), ==, equal.rows[row].turns.size());
  TurnFamily gate = equal;
  gate.extra_work = slowed.extra_work;
  gate.rows[row] = slowed.rows[row];
  return gate;
}

Replay replay_relabelled(const GatePool& equal, const Settings& settings,
                         const ReplayDepth& depth) {
  Replay replayed{equal.extra_work, Composition::Relabelled, 0, {}};
  const std::size_t gates = std::min(depth.gates, equal.gates.size());
  for (std::size_t number = 0; number < gates; ++number) {
    stats::Random random(depth.seed + number);
    std::vector<GateOutcome>& outcomes = replayed.gates.emplace_back();
    for (int labelling = 0; labelling < depth.labellings; ++labelling) {
      outcomes.push_back(replay(relabelled(equal.gates[number], random), settings));
    }
    replayed.starts += starts_per_gate(settings);
  }
  return replayed;
}

Replay replay_one_row_slowed(const GatePool& slowed, const GatePool& equal,
                             const Settings& settings, const ReplayDepth& depth) {
  Replay replayed{slowed.extra_work, Composition::OneRowSlowed, 0, {}};
  const std::size_t gates = std::min({depth.gates, slowed.gates.size(), equal.gates.size()});
  for (std::size_t number = 0; number < gates; ++number) {
    const TurnFamily& gate = equal.gates[number];
    std::vector<GateOutcome>& outcomes = replayed.gates.emplace_back();
    for (std::size_t row = 0; row < gate.rows.size(); ++row) {
      outcomes.push_back(replay(with_slowed_row(gate, slowed.gates[number], row), settings));
      outcomes.back().slowed_row = row;
    }
    replayed.starts += 2 * starts_per_gate(settings);
  }
  return replayed;
}

}  // namespace gradsync::gate
