// Where two JSON documents part, for messages that say what is not as it was or should be.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync {

// One place: its path ("/plan/steps"; "" is the whole), and what either has there, as JSON text, or
// "nothing".
struct JsonDifference {
  std::string path;
  std::string a;
  std::string b;
};

// Returns every place once, in the order of nlohmann's diff. A list that is longer in one of them
// differs as a whole. Pure.
std::vector<JsonDifference> json_differences(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace gradsync
