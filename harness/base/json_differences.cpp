#include "harness/base/json_differences.h"

#include <set>

namespace gradsync {

using nlohmann::json;

namespace {

std::string text_at(const json& document, const json::json_pointer& place) {
  return document.contains(place) ? document.at(place).dump() : "nothing";
}

}  // namespace

std::vector<JsonDifference> json_differences(const json& a, const json& b) {
  std::vector<JsonDifference> differences;
  std::set<std::string> seen;
  for (const json& change : json::diff(a, b)) {
    std::string path = change.at("path");
    // "-" is a patch's word for one past the end of a list.
    if (path.ends_with("/-")) path.resize(path.size() - 2);
    if (!seen.insert(path).second) continue;
    const json::json_pointer place(path);
    differences.push_back({path, text_at(a, place), text_at(b, place)});
  }
  return differences;
}

}  // namespace gradsync
