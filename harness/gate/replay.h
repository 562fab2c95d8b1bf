// The gate's own error rates: its decision on gates whose answer is known.
//
// The candidate of a stored gate is the baseline build with a known share of real work added, or
// with none. A gate takes starts of its own, so that gates are independent of each other and the
// number of gates says how much is known. One gate gives more than one verdict:
//
//   relabelled      without extra work the three processes of a start are the same, and which of
//                   them is called baseline, candidate and control was drawn (start_draws). So
//                   every other draw is as likely as the one that came about: a gate is decided on
//                   under many of them, and the share that alarms is the chance of an alarm on this
//                   machine at that time. The mean share over gates is the false alarm rate.
//   one row slowed  a change mostly slows some rows. One row has the turns of a start with extra
//                   work, the others those of a start without, and each row is the slowed one once.
//                   The mean share over gates in which it is found is the power. No start is in two
//                   gates of the same rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/traces.h"
#include "harness/gate/turns.h"
#include "harness/gate/verdict.h"
#include "harness/stats/random.h"

namespace gradsync::gate {

// The verdicts on one gate.
struct GateOutcome {
  Verdict verdict = Verdict::Undecided;
  std::vector<Verdict> rows;
  std::vector<int> turns;                 // by row: looked at before it was closed
  std::optional<std::size_t> slowed_row;  // the only one with extra work
};

// Returns what the gate decides on these turns. Those up to the last look are what it may look at;
// a row that is found slower is confirmed in those that follow. Errors: InternalError where a row
// has not the turns of all looks and of a confirmation.
GateOutcome replay(const TurnFamily& gate, const Settings& settings);

// Returns the gate with the arms of every start called by roles that are drawn as a gate draws
// them: places are as they were, and who had them is called anew.
TurnFamily relabelled(const TurnFamily& gate, stats::Random& random);

// Returns the gate `equal` with the turns of this row from `slowed`.
// Errors: InternalError where the two have other rows, or other numbers of turns.
TurnFamily with_slowed_row(const TurnFamily& equal, const TurnFamily& slowed, std::size_t row);

enum class Composition { Relabelled, OneRowSlowed };

// Gates with one extra work, their composition, and the verdicts on each gate, one for each replay.
struct Replay {
  double extra_work = 0;
  Composition composition = Composition::Relabelled;
  std::size_t starts = 0;  // that the gates are composed of
  std::vector<std::vector<GateOutcome>> gates;
};

// How much is replayed of a pool.
struct ReplayDepth {
  int labellings = 1000;      // of each gate; more: a steadier share
  std::uint64_t seed = 42;    // with the number of the gate it decides the labellings
  std::size_t gates = 10000;  // only the first so many
};

// Returns the outcomes of the gates of `equal`, which has no extra work, each under many
// labellings. Cost: a decision for each, some milliseconds at sixteen rows.
Replay replay_relabelled(const GatePool& equal, const Settings& settings,
                         const ReplayDepth& depth = {});

// Returns the outcomes of as many gates as both pools have, each with one of its rows after the
// other slowed.   Errors: as with_slowed_row.
Replay replay_one_row_slowed(const GatePool& slowed, const GatePool& equal,
                             const Settings& settings, const ReplayDepth& depth = {});

}  // namespace gradsync::gate
