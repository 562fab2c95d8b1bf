// How people decide today whether a change made training slower, on the same turns as the gate.
//
// Each habit is given the best of everything else, so that what it does wrong is all that counts
// against it: it sees every turn that the gate may take, calls slower what is beyond the gate's
// margin, and shares the gate's alpha out over the rows, as Bonferroni does.
//
//   fixed threshold     hyperfine, criterion and Google Benchmark's compare.py print the ratio of
//                       two means; a CI job then fails above a number that somebody chose. Here it
//                       is the margin. There is no p-value that could be corrected.
//   sequential arms     the baseline is measured first, the candidate afterwards: so does everyone
//                       who runs a benchmark at two commits. What drifts between them counts as the
//                       change. Each block is one repetition, and repetitions are compared as
//                       compare.py does it, by a U test.
//   pooled Mann-Whitney turns alternate, and all their steps go into the U test as if independent:
//                       what comes of giving compare.py steps as repetitions. Steps of one block
//                       share its mood, so the test is far surer than it may be.
//
// A U test with a margin asks whether the candidate's values over 1 + margin lie above the
// baseline's. None can say "undecided", and none asks a control.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/turns.h"

namespace gradsync::gate {

// What a habit is given beside the turns of a row.
struct HabitTerms {
  double margin = 0;  // a share: a candidate slower by more than this is to be flagged
  double level = 0;   // of the test of one row
};

// Returns the gate's margin, and its alpha over the number of rows.
HabitTerms habit_terms(const Settings& settings, std::size_t rows);

struct Habit {
  std::string name;  // as in tables and JSON
  bool (*flags)(const RowTurns&, const HabitTerms&);
};

// Returns the three in the order above.
const std::vector<Habit>& habits();

// Each returns whether the habit calls the row's candidate slower; never without turns.
bool fixed_threshold_flags(const RowTurns& row, const HabitTerms& terms);
// The first half of the turns gives the baseline's blocks, the second half the candidate's (of an
// odd number the middle one neither).
bool sequential_arms_flag(const RowTurns& row, const HabitTerms& terms);
bool pooled_steps_flag(const RowTurns& row, const HabitTerms& terms);

}  // namespace gradsync::gate
