// Kinds of axes: which values a field of a cell may have, and what is expected of others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/cell.h"

namespace gradsync::plan {

// Returns the bytes of `value`, which is a number or a text with a unit. `zero`: what 0 stands for,
// `example`: such a text, for messages. Errors: std::invalid_argument, what was expected.
std::int64_t size_from_json(const nlohmann::json& value, const std::string& zero,
                            const std::string& example);

// `help`: what the axis is, in a sentence.
Axis name(const char* axis, std::string Cell::*field, const char* help);
Axis one_of(const char* axis, std::string Cell::*field, std::vector<std::string> allowed,
            const char* help);
Axis count(const char* axis, int Cell::*field, const char* help);            // 1 to kLargestCount
Axis count_from_zero(const char* axis, int Cell::*field, const char* help);  // 0 to kLargestCount
Axis flag(const char* axis, bool Cell::*field, const char* help);
// Bytes, by size_from_json.
Axis size(const char* axis, std::int64_t Cell::*field, const std::string& zero,
          const std::string& example, const char* help);
// "none": 0, "full": 1, "every_2": 2, ...
Axis every_nth(const char* axis, int Cell::*field, const char* help);

// Returns the rows of model_options.cpp, which options.cpp puts in the middle of its table.
std::vector<Axis> options_of_models();

}  // namespace gradsync::plan
