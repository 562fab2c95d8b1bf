// Reads a JSON object strictly: every field has a type and a rule, and an unknown field is an
// error. Each complaint is one sentence with file, field, got and expected.
//
//   JsonFields fields(object, "smoke.json");
//   plan.steps = fields.positive_int("steps", 8);
//   fields.finish();   // refuses what is left
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

class JsonFields {
 public:
  // `object` must outlive this reader. `path` is the place inside the file, "cells." say.
  // Errors: ConfigError where `object` is no object.
  JsonFields(const nlohmann::json& object, std::string file, std::string path = "");

  bool has(const std::string& name) const { return object_.contains(name); }

  // Each returns the field, or `fallback` where it is absent (no fallback: required).
  // Errors: ConfigError for a missing field, a wrong type, or a value out of range.
  std::string string(const std::string& name, std::optional<std::string> fallback = {});
  bool boolean(const std::string& name, std::optional<bool> fallback = {});
  double number(const std::string& name, std::optional<double> fallback = {});
  std::int64_t integer(const std::string& name, std::int64_t at_least,
                       std::optional<std::int64_t> fallback = {});
  std::int64_t positive_int(const std::string& name, std::optional<std::int64_t> fallback = {}) {
    return integer(name, 1, fallback);
  }
  // The raw value (null where absent and not required); marks the field as known.
  const nlohmann::json& raw(const std::string& name, bool required);

  // Refuses every field that was not asked for, and names those that may be used.
  void finish() const;

  // Throws ConfigError about field `name`. `got` defaults to the field's value as it stands.
  [[noreturn]] void fail(const std::string& name, const std::string& expected,
                         std::string got = "") const;

  const std::string& file() const { return file_; }

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::string path_;
  std::set<std::string> known_;
};

// Returns `value` as written, short enough for one line, for what a message says it got.
std::string quote(const nlohmann::json& value);

// Lists and objects may be nested this deep; our own files need less than ten levels. Code that
// walks a value recursively (nlohmann's dump and copy do) uses stack for each level. Larger: a
// small file could crash the program.
inline constexpr int kDeepestJson = 100;

// Returns the parsed text. Errors: nlohmann::json::exception where it is no JSON, or nested deeper.
nlohmann::json parse_json(std::string_view text);

// The same. Errors: ConfigError "PLACE: not valid JSON: ...".
nlohmann::json parse_json(std::string_view text, const std::string& place);

// Returns what a word of a command line says: JSON, or where it is none the text itself.
nlohmann::json json_or_word(const std::string& word);

// Returns the parsed file. Errors: ConfigError where it cannot be read or is no JSON (says where).
nlohmann::json read_json_file(const std::string& path);

// A value that may be unknown, as JSON has it: null.
template <typename Value>
nlohmann::json optional_to_json(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace gradsync
