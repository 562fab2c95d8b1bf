// Going through the preset looks: p-values of every row, and which rows need no more turns.
#pragma once

#include <vector>

#include "harness/gate/row_decision.h"
#include "harness/gate/settings.h"

namespace gradsync::gate {

// One row after the looks that its turns allow.
struct RowProgress {
  int turns = 0;                  // at its last look; 0: too few for the first one
  ByMeasure<Shifts> shifts;       // of the starts of these turns; of all where there was no look
  bool is_open = true;            // may take more turns
  ByMeasure<PValues> p;           // the smallest over the looks of p / weight, at most 1
  ByMeasure<StartSpread> spread;  // of these shifts
};

// Returns the progress of rows that are decided on together. At a look every row stands with the
// turns it had taken by then; their spreads are moderated together.
// A row is closed where nothing that other rows do can change what it comes to:
//   - both measures are not slower: it passes (a shift between margin and smallest effect may so
//     end as a pass that more turns would have called slower: either is right there);
//   - a measure is slower, or the control is off, at alpha over the number of tests;
//   - the last look is over.
std::vector<RowProgress> go_through_looks(const std::vector<RowDifferences>& rows,
                                          const Settings& settings);

// Returns whether a row passes: whether each measure is not slower by its smallest effect.
bool is_pass(const ByMeasure<PValues>& p, const Settings& settings);

// Returns the smallest effect of a measure.
double smallest_effect_of(Measure measure, const Settings& settings);

// Returns how many tests there are of "slower", and of "the control is off", over so many rows.
std::size_t slower_tests(std::size_t rows);
std::size_t control_tests(std::size_t rows);

}  // namespace gradsync::gate
