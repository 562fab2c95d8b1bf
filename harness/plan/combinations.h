// Which values of a cell's axes go together, and with its model, as their rows say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/cell.h"

namespace gradsync::plan {

// A value that does not go with the cell's others: of which axis, what it could be with them, and
// what it is, as JSON.
struct Misfit {
  std::string axis;
  std::string expected;
  std::string got;
};

// The first there is, in the order of axes(); nothing: all go together.
std::optional<Misfit> misfit_of(const Cell& cell);

// The first value that `model`, which the cell names, cannot have; nothing: it can have all.
std::optional<Misfit> misfit_of(const Cell& cell, models::ModelDescription model);

// A plan may list several values of each lever, the wrapper and the strategy among them, of which
// some go with some others alone. Its cells are the combinations that there are, as long as each
// listed value is in one of them: those with a misfit of a lever go from `cells`.
// Returns the misfit of a cell that cannot go, since what it has would be in no other, or since the
// misfit is of no lever. Cost: as many sets of values as cells.
std::optional<Misfit> drop_misfits(std::vector<Cell>& cells);

}  // namespace gradsync::plan
