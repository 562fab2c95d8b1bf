// JSON for people: as text that they compare by diff, and where two documents part.
//
// Names are sorted, and each list or object is on one line where it fits there:
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
#include <vector>

namespace gradsync {

// Returns the text, with a newline at its end. "schema" of the outermost object comes first. Lines
// have at most `width` columns where what stands on them can be divided.
std::string readable_json(const nlohmann::json& value, std::size_t width = 100);

// One place where two documents part: its path ("/plan/steps"; "" is the whole), and what either
// has there, as JSON text, or "nothing".
struct JsonDifference {
  std::string path;
  std::string a;
  std::string b;
};

// Returns every place once, in the order of nlohmann's diff. A list that is longer in one of them
// differs as a whole. Pure.
std::vector<JsonDifference> json_differences(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace gradsync
