// The numbers of one cell, from its trials that ended well. An unknown number has a reason.
#pragma once

#include <string>

#include "harness/results/result.h"
#include "harness/stats/interval.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// Returns why the times of this cell are invalid, or "" if they are valid: a debug or sanitizer
// build (`timing_valid` of the context), or more ranks than cores computing for real
// ("timing_valid": false in a trial's model_info; "timing_reason" beside it says more).
std::string timing_objection(const results::Context& context, const CellGroup& group);

// Returns the result of this cell, all but what compares it with others.
results::CellResult summarize_cell(const results::Context& context, const CellGroup& group);

// Returns what the interval of an estimate from so many launches is, or why there is none:
// "Student's t over 4 launches", "none: 2 launches, and an interval needs 3".
std::string interval_kind(const stats::Estimate& estimate, std::size_t launches);

}  // namespace gradsync::summary
