#include "harness/base/json_fields.h"

#include <fmt/format.h>

#include <utility>

#include "harness/base/errors.h"
#include "harness/base/nearest.h"
#include "harness/base/whole_file.h"

namespace gradsync {

using nlohmann::json;

namespace {
constexpr std::size_t kLongestQuote = 80;

// Counts the brackets that are not inside of a string. If the text is no JSON, any character may
// count as inside.
bool is_too_deep(std::string_view text) {
  bool in_string = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && depth <= kDeepestJson; ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return depth > kDeepestJson;
}
}  // namespace

std::string quote(const json& value) {
  std::string text = value.dump();
  if (text.size() > kLongestQuote) text = text.substr(0, kLongestQuote) + "...";
  return text;
}

JsonFields::JsonFields(const json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object_.is_object()) {
    throw ConfigError(file_, path_.empty() ? "(top level)" : path_, quote(object_), "an object");
  }
}

void JsonFields::fail(const std::string& name, const std::string& expected, std::string got) const {
  if (got.empty()) got = object_.contains(name) ? quote(object_.at(name)) : "nothing";
  throw ConfigError(file_, path_ + name, got, expected);
}

const json& JsonFields::raw(const std::string& name, bool required) {
  static const json absent;
  known_.insert(name);
  const auto found = object_.find(name);
  if (found != object_.end()) return *found;
  if (required) fail(name, "this field, it is required");
  return absent;
}

std::string JsonFields::string(const std::string& name, std::optional<std::string> fallback) {
  const json& value = raw(name, !fallback);
  if (value.is_null() && fallback) return *fallback;
  if (!value.is_string()) fail(name, "a string");
  return value.get<std::string>();
}

bool JsonFields::boolean(const std::string& name, std::optional<bool> fallback) {
  const json& value = raw(name, !fallback);
  if (value.is_null() && fallback) return *fallback;
  if (!value.is_boolean()) fail(name, "true or false");
  return value.get<bool>();
}

double JsonFields::number(const std::string& name, std::optional<double> fallback) {
  const json& value = raw(name, !fallback);
  if (value.is_null() && fallback) return *fallback;
  if (!value.is_number()) fail(name, "a number");
  return value.get<double>();
}

std::int64_t JsonFields::integer(const std::string& name, std::int64_t at_least,
                                 std::optional<std::int64_t> fallback) {
  const json& value = raw(name, !fallback);
  if (value.is_null() && fallback) return *fallback;
  if (!value.is_number_integer() || value.get<std::int64_t>() < at_least) {
    fail(name, fmt::format("an integer of at least {}", at_least));
  }
  return value.get<std::int64_t>();
}

void JsonFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) {
      throw ConfigError(file_, path_ + name, "an unknown field",
                        one_of_names(name, {known_.begin(), known_.end()}));
    }
  }
}

json parse_json(std::string_view text) {
  if (is_too_deep(text)) {
    throw json::other_error::create(
        501, fmt::format("lists and objects nested more than {} deep", kDeepestJson), nullptr);
  }
  return json::parse(text);
}

json parse_json(std::string_view text, const std::string& place) {
  try {
    return parse_json(text);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: not valid JSON: {}", place, error.what()));
  }
}

json json_or_word(const std::string& word) {
  json value = json::parse(word, nullptr, false);
  return value.is_discarded() ? json(word) : value;
}

json read_json_file(const std::string& path) {
  return parse_json(whole_file(path), path);
}

}  // namespace gradsync
