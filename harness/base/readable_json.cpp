#include "harness/base/readable_json.h"

#include <set>

namespace gradsync {
namespace {

using nlohmann::json;

constexpr std::size_t kIndent = 2;
constexpr const char* kFirst = "schema";

// Every item of a list, every member of an object as `"name": `, with its value.
struct Part {
  std::string label;
  const json* value;
};

std::vector<Part> parts_of(const json& value, bool is_outermost) {
  std::vector<Part> parts;
  if (value.is_array()) {
    for (const json& item : value) parts.push_back({"", &item});
    return parts;
  }
  const auto add = [&](const std::string& name) {
    parts.push_back({json(name).dump() + ": ", &value.at(name)});
  };
  const bool has_first = is_outermost && value.contains(kFirst);
  if (has_first) add(kFirst);
  for (const auto& [name, ignored] : value.items()) {
    if (!has_first || name != kFirst) add(name);
  }
  return parts;
}

std::string one_line(const json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const Part& part : parts_of(value, false)) {
    if (!text.empty()) text += ", ";
    text += part.label + one_line(*part.value);
  }
  return value.is_array() ? "[" + text + "]" : "{" + text + "}";
}

// `column`: where on its line the value begins; `depth`: how deep that line is indented.
std::string laid_out(const json& value, std::size_t column, std::size_t depth, std::size_t width) {
  std::string line = one_line(value);
  const bool is_outermost = depth == 0;
  if (!value.is_structured() || value.empty()) return line;
  if (!is_outermost && column + line.size() + 1 <= width) return line;  // 1: the comma behind it
  const std::size_t inner = depth + kIndent;
  std::string text;
  for (const Part& part : parts_of(value, is_outermost)) {
    if (!text.empty()) text += ",\n";
    text += std::string(inner, ' ') + part.label +
            laid_out(*part.value, inner + part.label.size(), inner, width);
  }
  text += '\n';
  text.append(depth, ' ');
  return value.is_array() ? "[\n" + text + "]" : "{\n" + text + "}";
}

std::string text_at(const json& document, const json::json_pointer& place) {
  return document.contains(place) ? document.at(place).dump() : "nothing";
}

}  // namespace

std::string readable_json(const json& value, std::size_t width) {
  return laid_out(value, 0, 0, width) + "\n";
}

using nlohmann::json;

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
