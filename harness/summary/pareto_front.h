// Memory against time: the ways to do the same work that no other way beats in both.
//
//   s/step
//    | x                   x  holds more and is slower than another: useless
//    |   o                 o  on the front: less memory costs time
//    |      o  x
//    |            o
//    +-------------- peak
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/results/result.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// The names of the parameters that trade memory for time (plan::Axis), the strategy among them.
const std::set<std::string>& levers();

// Returns whether a cell has this lever at another value than its default.
bool is_pulled(const results::Parameters& cell, const std::string& lever);

// Returns what a cell shares with all that do the same work.
results::Parameters without_levers(results::Parameters cell);

// Returns a front for each set of cells of one part that differ in levers alone, of those that have
// a time and a peak, where levers other than the strategy vary. Ways that only lead to DDP
// (text/labels.h) are none of them: some never synchronize. `cells`: one for each group.
//
// The mean decides whether a point is on the front. Chance influences that choice, so the interval
// of its ratio to the fastest is one that holds for all pairs of points at once (Bonferroni's
// inequality).
std::vector<results::ParetoFront> pareto_fronts(const std::vector<CellGroup>& groups,
                                                const std::vector<results::CellResult>& cells);

}  // namespace gradsync::summary
