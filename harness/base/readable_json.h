// JSON for files that people read and compare by diff: names sorted, and each list or object on one
// line where it fits there.
//
//   {
//     "schema": "gradsync.counts/1",
//     "ranks": [
//       {"bytes": 676, "count": 1}
//     ]
//   }
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace gradsync {

// Returns the text, with a newline at its end. "schema" of the outermost object comes first. Lines
// have at most `width` columns where what stands on them can be divided.
std::string readable_json(const nlohmann::json& value, std::size_t width = 100);

}  // namespace gradsync
