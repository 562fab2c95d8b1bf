// From raw trials to result.json (schema gradsync.result/1).
//
// Everything a table, a plot or a gate says is computed here, once, from records alone: no clock,
// no processes, no torch. The same trials give the same bytes on every machine.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/report/cell_group.h"
#include "harness/results/records.h"

namespace gradsync::report {

inline constexpr const char* kResultSchema = "gradsync.result/1";

// The strategy all others are compared with: the least communication the guide's listing allows.
inline constexpr const char* kReferenceStrategy = "no_sync";

// Returns the result. "exit_status" is null; the caller knows it and sets it.
// Cells come in the order of the plan (cell_group.h). A cell whose trials differ in status has the
// worst one, with its first reason; its numbers come from the trials that ended well, and "trials"
// counts each kind. Times are null, with a reason, where timing means nothing (cell_summary.h).
nlohmann::json build_result(const nlohmann::json& context, const nlohmann::json& plan,
                            const std::vector<results::TrialRecord>& trials,
                            const std::vector<SkippedCell>& skipped = {});

}  // namespace gradsync::report
