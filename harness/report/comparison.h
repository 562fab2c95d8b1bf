// How many times slower a cell is than the same cell under another strategy, launch by launch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/report/cell_group.h"
#include "harness/stats/launch_interval.h"

namespace gradsync::report {

// Returns {"vs", "ratio", "ci95", "interval", "launches", "pairs"}: the mean step of `cell` over
// that of `reference`, of elapsed times in the rounds in which both ended well, of which there are
// "pairs" in so many "launches". "ci95" is the interval at `level`, "interval" says what it is or
// why there is none. `cell` against itself is 1 without an interval. Null where there is no such
// round.
nlohmann::json compare_steps(const CellGroup& cell, const CellGroup& reference,
                             double level = stats::kUsualLevel);

// Returns the group that differs from `group` only in its strategy, or nullptr.
const CellGroup* sibling(const std::vector<CellGroup>& groups, const CellGroup& group,
                         const std::string& strategy);

// Returns the group that is `group` without SyncBatchNorm, or nullptr.
const CellGroup* with_local_statistics(const std::vector<CellGroup>& groups,
                                       const CellGroup& group);

}  // namespace gradsync::report
