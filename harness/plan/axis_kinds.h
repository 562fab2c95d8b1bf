// Kinds of axes: which values a field of a cell may have, and what is expected of others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/cell.h"

namespace gradsync::plan {

// Returns the bytes that `value` says as a number or as a text with a unit. `zero`: what 0 stands
// for, `example`: such a text, for messages. Errors: std::invalid_argument, what was expected.
std::int64_t size_from_json(const nlohmann::json& value, const std::string& zero,
                            const std::string& example);

Axis name(const char* axis, std::string Cell::*field);
Axis one_of(const char* axis, std::string Cell::*field, std::vector<std::string> allowed);
Axis count(const char* axis, int Cell::*field);            // 1 to kLargestCount
Axis count_from_zero(const char* axis, int Cell::*field);  // 0 to kLargestCount
Axis flag(const char* axis, bool Cell::*field);
// Bytes, by size_from_json.
Axis size(const char* axis, std::int64_t Cell::*field, const std::string& zero,
          const std::string& example);
// "none": 0, "full": 1, "every_2": 2, ...
Axis every_nth(const char* axis, int Cell::*field);

}  // namespace gradsync::plan
