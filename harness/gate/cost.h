// How long a gate will take, before anything is measured, and what fits into a time budget.
//
// Rows that share ranks (one part, topology and scale) are one launch: its arms start together and
// are resident together, so that starting is paid once per launch and start, and turns are paid per
// row. Reckoned without early ends, so it is what a gate takes at most, as far as the step times
// are right.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/settings.h"

namespace gradsync::gate {

struct LaunchCost {
  double start_s = 0;          // from starting the ranks of all three arms to their first turn
  double switch_s = 0;         // what a pass takes beyond its steps
  std::vector<double> step_s;  // of each row, one step of one arm
};

// What a gate takes with its first k looks, and what the budget leaves of it.
struct Forecast {
  std::size_t rows = 0;
  std::size_t looks = 0;      // that fit
  double looks_s = 0;         // those looks of all rows
  double confirmation_s = 0;  // of as many rows as are confirmed; 0: nothing can be found slower
  double total_s() const { return looks_s + confirmation_s; }
};

// Returns the forecast of as many looks as fit into `budget_s`, all of them without a budget. Room
// for the confirmation is kept where those looks can find a row slower.
// Errors: ConfigError about --time-budget where not even one look fits, saying what it needs.
Forecast forecast(const std::vector<LaunchCost>& launches, const Settings& settings,
                  std::optional<double> budget_s);

// Returns "the time budget allows 2 of 3 looks" where not all of `settings` fit, "" where they do;
// with the budget it would take where those that fit can find nothing slower. `spent_s`: of the
// budget, before the looks.
std::string note_on_looks(const Forecast& fitting, const std::vector<LaunchCost>& launches,
                          const Settings& settings, double spent_s);

// Returns "16 rows, 24 turns each in 3 starts: at most 4m12s, of which 40s to confirm 4 rows".
std::string to_text(const Forecast& forecast, const Settings& settings);

}  // namespace gradsync::gate
