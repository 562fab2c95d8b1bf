// How many times slower a cell is than the same cell under another strategy, launch by launch.
#pragma once

#include <optional>
#include <string>

#include "harness/results/result.h"
#include "harness/stats/launch_interval.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// Returns the mean step of `cell` over that of `reference`, of elapsed times in the rounds in which
// both ended well, with its interval at `level`. `cell` against itself is 1 without an interval.
// Nothing where there is no such round.
std::optional<results::StepRatio> compare_steps(const CellGroup& cell, const CellGroup& reference,
                                                double level = stats::kUsualLevel);

// Returns the group of this cell of this part, or nullptr.
const CellGroup* find_group(const std::vector<CellGroup>& groups, const std::string& part,
                            const results::Parameters& cell);

// Returns the group that differs from `group` only in its strategy, or nullptr.
const CellGroup* sibling(const std::vector<CellGroup>& groups, const CellGroup& group,
                         const std::string& strategy);

// Returns the group that is `group` without SyncBatchNorm, or nullptr.
const CellGroup* with_local_statistics(const std::vector<CellGroup>& groups,
                                       const CellGroup& group);

}  // namespace gradsync::summary
