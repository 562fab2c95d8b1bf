// The gate's own error rates: its decision on gates whose answer is known, and that of the habits.
//
// The candidate of a stored gate is the baseline build with a known share of real work added, or
// with none. So every "regression" where none was added is a false alarm, and every other verdict
// where enough was added a miss. Two ways to compose gates from stored starts (traces.h):
//
//   independent   the starts in their order, each in one gate only. Gates are then independent of
//                 each other, and an exact interval of a rate means what it says.
//   reused        starts drawn at random for each gate, so that one is in several gates. More
//   gates,
//                 and steadier rates; but no more information than the starts have, so that there
//                 is no interval.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/traces.h"
#include "harness/gate/turns.h"
#include "harness/gate/verdict.h"
#include "harness/stats/random.h"

namespace gradsync::gate {

// What was said of one gate.
struct GateOutcome {
  Verdict verdict = Verdict::Undecided;
  std::vector<Verdict> rows;
  std::vector<int> turns;                 // by row: looked at before it was closed
  std::vector<std::vector<bool>> habits;  // by habit, in the order of habits(): the rows it flags
};

// Returns what the gate decides on these turns, and each habit. The turns up to the last look are
// what it may look at; a row that is found slower is confirmed in those that follow. Habits see the
// turns of the looks, of every row, since none of them ends early.
// Errors: InternalError where a row has not the turns of all looks and of a confirmation.
GateOutcome replay(const TurnFamily& gate, const Settings& settings);

// Gates with one extra work, and how they came about.
struct Replay {
  double extra_work = 0;
  bool reuses_starts = false;
  std::size_t starts = 0;  // that the gates were composed of
  std::vector<GateOutcome> gates;
};

// Returns the outcomes of as many gates as the pool has starts for; what is left of them is unused.
Replay replay_independent(const StartPool& pool, const Settings& settings);

// Returns the outcomes of `gates` gates, each of different starts drawn from the pool, every choice
// and order equally likely; none where the pool has too few for one.
Replay replay_reused(const StartPool& pool, const Settings& settings, int gates,
                     stats::Random& random);

}  // namespace gradsync::gate
