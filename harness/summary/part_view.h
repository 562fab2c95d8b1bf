// One part of a result, as its tables see it.
#pragma once

#include <string>
#include <vector>

#include "harness/results/result.h"

namespace gradsync::report {

// Whether the model of this cell waited instead of computing.
bool is_paced(const results::CellResult& cell);

struct PartView {
  std::string name;
  std::string about;  // from the plan; may be empty
  results::Context context;
  std::vector<results::CellResult> cells;  // in the order of the result

  bool paced() const;  // any of its cells
  bool several_topologies() const;
  // Parameters of the cells that differ inside this part, but for topology and strategy.
  std::vector<std::string> varying_parameters() const;
  // Decimals for the seconds of its steps (labels.h).
  int decimals() const;
};

// Returns the parts of a result in the order of their cells.
std::vector<PartView> parts_of(const results::Result& result);

// Returns the cell of `part` that shares all with `cell` but its strategy, or nullptr.
const results::CellResult* find_strategy(const PartView& part, const results::CellResult& cell,
                                         const std::string& strategy);

// Returns one cell for every combination of parameters other than the strategy, in order.
std::vector<results::CellResult> settings_of(const PartView& part);

}  // namespace gradsync::report
