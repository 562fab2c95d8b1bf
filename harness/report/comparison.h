// How many times slower a cell is than the same cell under another strategy, round by round.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/report/cell_group.h"

namespace gradsync::report {

// Returns {"vs", "ratio", "ci95", "pairs"}: the mean step of `cell` over that of `reference` in the
// rounds in which both ended well. `cell` against itself is 1 without an interval. Null where there
// is no such round.
nlohmann::json compare_steps(const CellGroup& cell, const CellGroup& reference);

// Returns the group that differs from `group` only in its strategy, or nullptr.
const CellGroup* sibling(const std::vector<CellGroup>& groups, const CellGroup& group,
                         const std::string& strategy);

// Returns the group that is `group` without SyncBatchNorm, or nullptr.
const CellGroup* with_local_statistics(const std::vector<CellGroup>& groups,
                                       const CellGroup& group);

}  // namespace gradsync::report
