// Which values of a cell's axes go together, and with its model, as their rows say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/cell.h"

namespace gradsync::plan {

// A value that does not go with the cell's others: its axis, the values that would go with them,
// and the value itself as JSON.
struct Misfit {
  std::string axis;
  std::string expected;
  std::string got;
};

// Returns the first misfit, in the order of axes(); nothing: all values go together.
std::optional<Misfit> misfit_of(const Cell& cell);

// Returns the first value that the cell's `model` cannot have; nothing: it can have all.
std::optional<Misfit> misfit_of(const Cell& cell, models::ModelDescription model);

// Removes from `cells` those with a misfit of a lever. A plan may list several values of each
// lever, the wrapper and the strategy among them, some of which go only with some others. Its cells
// are the combinations that exist, as long as each listed value is in one of them.
// Returns the misfit of a cell that cannot be removed: because one of its values is in no other
// cell, or because the misfit is of no lever. Cost: as many sets of values as cells.
std::optional<Misfit> drop_misfits(std::vector<Cell>& cells);

}  // namespace gradsync::plan
