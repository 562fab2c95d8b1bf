// Where in the step a row's slow-down is: by how much each phase is longer.
//
// A phase's effect is what the step's would be if nothing but this phase had changed, so the
// effects of all phases add up to about the step's. In a turn it is, with the mean step of baseline
// and control,
//
//     log(1 + (candidate - (baseline + control) / 2) / step)
//
// and starts are made of turns as for the step (row_decision.h).
//
// Phases never decide. Only in a row that its steps confirm as slower, a phase is named: if its
// fresh starts by themselves are surely longer than nothing, by Holm's method over the phases, at
// the level of the confirmation. What may be wrong only where the row is slower takes nothing of
// the gate's alpha (gatekeeping; Westfall and Krishen, "Optimally weighted, fixed sequence and
// gatekeeper multiple testing procedures", 2001). If phases decided, a change that only moves work
// from one phase to another would be called slower.
#pragma once

#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/turns.h"
#include "harness/gate/verdict.h"

namespace gradsync::gate {

// Returns the effect of each phase in these turns, the largest first, by the starts' estimate of
// `measure`, with p-values adjusted for all of them. Without the phases that take no time in any
// arm; empty where a turn does not know its phases.
std::vector<PhaseEffect> phase_effects(const std::vector<Turn>& turns, Measure measure);

// Adds to `row` the effects of its phases, and to its sentence the phases that are surely longer,
// where a confirmation found it slower. `turns`: those of its looks.
void add_phases(RowDecision& row, const std::vector<Turn>& turns,
                const std::vector<Turn>& confirmation, const Settings& settings);

}  // namespace gradsync::gate
