// How people decide today whether a change made training slower, on the same turns as the gate.
//
// Each habit is given the best of everything else, so that what it does wrong is all that counts
// against it: it sees every turn that the gate may take, and asks for the gate's alpha.
//
//   fixed 5 %           hyperfine, criterion and Google Benchmark's compare.py print the ratio of
//   two
//                       means; a CI job then fails above a number that somebody chose.
//   sequential arms     the baseline is measured first, the candidate afterwards: so does everyone
//                       who runs a benchmark at two commits. What drifts between them counts as the
//                       change. Each block is one repetition, and repetitions are compared as
//                       compare.py does it, by a U test.
//   pooled Mann-Whitney turns alternate, and all their steps go into the U test as if independent:
//                       what comes of giving compare.py steps as repetitions. Steps of one block
//                       share its mood, so the test is far surer than it may be.
//
// None corrects for the number of rows, and none can say "undecided".
#pragma once

#include <string>
#include <vector>

#include "harness/gate/turns.h"

namespace gradsync::gate {

inline constexpr double kFixedThreshold = 0.05;  // of the first habit: larger misses more
inline constexpr double kHabitAlpha = 0.01;      // of both U tests, one-sided

struct Habit {
  std::string name;  // as in tables and JSON
  bool (*flags)(const RowTurns&);
};

// Returns the three in the order above.
const std::vector<Habit>& habits();

// Each returns whether the habit calls the row's candidate slower; never without turns.
bool fixed_threshold_flags(const RowTurns& row);
// The first half of the turns gives the baseline's blocks, the second half the candidate's (of an
// odd number the middle one neither).
bool sequential_arms_flag(const RowTurns& row);
bool pooled_steps_flag(const RowTurns& row);

}  // namespace gradsync::gate
