// The numbers of one cell, from its trials that ended well.
//
// A number that is not known is null, and "null_reasons" of the same cell says why, by field name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/report/cell_group.h"
#include "harness/stats/bootstrap.h"
#include "harness/stats/interval.h"

namespace gradsync::report {

// Returns why the times of this cell mean nothing, or "" where they mean something: a debug or
// sanitizer build ("timing_valid": false in the context), or more ranks than cores computing for
// real ("timing_valid": false in a trial's model_info; "timing_reason" beside either says more).
std::string timing_objection(const nlohmann::json& context, const CellGroup& group);

// Returns the timed steps of the trials that ended well, each trial a block of its launch.
stats::Launches steps_by_launch(const CellGroup& group);

// Returns the entry of this cell in result.json, all but what compares it with another cell.
// `as_published`: the windows hold different numbers of micro-batches, and rank 0's clock counts.
nlohmann::json summarize_cell(const nlohmann::json& context, const CellGroup& group,
                              bool as_published);

// [lo, hi], or null.
nlohmann::json interval_to_json(const std::optional<stats::Interval>& interval);

// Sets field `name` of a cell to null and notes the reason.
void set_unknown(nlohmann::json& cell, const std::string& name, const std::string& reason);

}  // namespace gradsync::report
