// How long a gate will take, before anything is measured, and how long its next starts will.
//
// Rows that share ranks (one part, topology and scale) are one launch: its arms start together and
// are resident together, so that starting is paid once per launch and start, and turns are paid per
// row. A gate ends sooner the clearer its rows are, so what it takes lies between two figures, as
// far as the step times are right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/gate/settings.h"

namespace gradsync::gate {

struct LaunchCost {
  double start_s = 0;          // from starting the ranks of all three arms to their first turn
  double switch_s = 0;         // what a pass takes beyond its steps
  int warmup_steps = 0;        // of each row and arm
  std::vector<double> step_s;  // of each row, one step of one arm
};

// Returns what so many turns of these rows take, a whole number of starts.
double turns_s(const std::vector<LaunchCost>& launches, const Settings& settings, int turns);

// Returns what confirming takes, of as many rows as are confirmed at once: those that take longest.
double confirmation_s(const std::vector<LaunchCost>& launches, const Settings& settings);

struct Forecast {
  std::size_t rows = 0;
  double first_s = 0;         // until the first look
  double least_s = 0;         // where every row passes at the first look that can pass it
  double most_s = 0;          // where every row goes through all looks, with a confirmation
  double confirmation_s = 0;  // of it; 0: nothing can be found slower
};

Forecast forecast(const std::vector<LaunchCost>& launches, const Settings& settings);

// Returns "16 rows: 4m40s where all pass at once, after 50 turns each in 5 starts; at most 28m,
// after 330 turns in 33 starts, 50s of it to confirm 2 rows".
std::string to_text(const Forecast& forecast, const Settings& settings);

}  // namespace gradsync::gate
