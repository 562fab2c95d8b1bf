// From raw trials to the result (results/result.h).
//
// Everything a table, a plot or a gate says is computed here, once, from records alone: no clock,
// no processes, no torch. The same trials give the same bytes on every machine.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/result.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// The strategy all others are compared with: the least communication the guide's listing allows.
inline constexpr const char* kReferenceStrategy = "no_sync";

// Returns the result. Its exit status is not set; the caller knows it.
// Cells come in the order of the plan (cell_group.h). A cell whose trials differ in status has the
// worst one, with its first reason; its numbers come from the trials that ended well. Times are not
// known where timing means nothing (cell_summary.h).
results::Result build_result(const results::Context& context, const nlohmann::json& plan,
                             const std::vector<results::TrialRecord>& trials,
                             const std::vector<SkippedCell>& skipped = {});

}  // namespace gradsync::summary
