// The numbers of one cell, from its trials that ended well.
//
// A number that is not known is null, and "null_reasons" of the same cell says why, by field name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/report/cell_group.h"
#include "harness/stats/interval.h"

namespace gradsync::report {

// Returns why the times of this cell mean nothing, or "" where they mean something: a debug or
// sanitizer build ("timing_valid": false in the context), or more ranks than cores computing for
// real ("timing_valid": false in a trial's model_info; "timing_reason" beside either says more).
std::string timing_objection(const nlohmann::json& context, const CellGroup& group);

// Returns the entry of this cell in result.json, all but what compares it with another cell.
nlohmann::json summarize_cell(const nlohmann::json& context, const CellGroup& group);

// Returns what the interval of an estimate from so many launches is, or why there is none:
// "Student's t over 4 launches", "none: 2 launches, and an interval needs 3".
std::string interval_kind(const stats::Estimate& estimate, std::size_t launches);

// [lo, hi], or null.
nlohmann::json interval_to_json(const std::optional<stats::Interval>& interval);

// Sets field `name` of a cell to null and notes the reason.
void set_unknown(nlohmann::json& cell, const std::string& name, const std::string& reason);

}  // namespace gradsync::report
