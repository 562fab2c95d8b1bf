#include "harness/base/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync {

using nlohmann::json;

void FieldPlace::fail(const json* got, const std::string& expected) const {
  const std::string field = path();
  throw ConfigError(std::string(file_), field.empty() ? "(top level)" : field,
                    got == nullptr ? "nothing" : quote(*got), expected);
}

std::string FieldPlace::path() const {
  if (outer_ == nullptr) return "";
  const std::string outer = outer_->path();
  if (name_.empty()) return fmt::format("{}[{}]", outer, index_);
  return outer.empty() ? std::string(name_) : fmt::format("{}.{}", outer, name_);
}

void FieldCheck::that(bool holds, const char* name, const std::string& expected) const {
  if (holds) return;
  const auto found = in_.find(name);
  place_.field(name).fail(found == in_.end() ? nullptr : &*found, expected);
}

namespace fields_detail {

void fail_unnamed(int value) {
  throw InternalError(fmt::format("value {} of an enum has no name; this is a bug", value));
}

bool boolean_from(const json& in, const FieldPlace& place) {
  if (!in.is_boolean()) place.fail(&in, "true or false");
  return in.get<bool>();
}

// get<int>() cuts off a fraction, wraps what is too large, and is undefined for 1e300.
std::int64_t integer_from(const json& in, const FieldPlace& place, std::int64_t lowest,
                          std::uint64_t highest, int bits) {
  const bool is_negative = in.is_number_integer() && !in.is_number_unsigned() && in < 0;
  const bool fits = in.is_number_integer() && (is_negative ? in.get<std::int64_t>() >= lowest
                                                           : in.get<std::uint64_t>() <= highest);
  if (!fits) place.fail(&in, fmt::format("an integer of {} bits", bits));
  return in.get<std::int64_t>();
}

double double_from(const json& in, const FieldPlace& place) {
  if (in.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!in.is_number()) place.fail(&in, "a number");
  return in.get<double>();
}

std::string string_from(const json& in, const FieldPlace& place) {
  if (!in.is_string()) place.fail(&in, "a string");
  return in.get<std::string>();
}

const json::array_t& list_from(const json& in, const FieldPlace& place) {
  if (!in.is_array()) place.fail(&in, "a list");
  return in.get_ref<const json::array_t&>();
}

const json::object_t& object_from(const json& in, const FieldPlace& place) {
  if (!in.is_object()) place.fail(&in, "an object");
  return in.get_ref<const json::object_t&>();
}

json double_to_json(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

void check_integer(std::int64_t value, std::int64_t lowest, std::int64_t highest, const json& in,
                   const FieldPlace& place) {
  if (value < lowest) place.fail(&in, fmt::format("an integer of at least {}", lowest));
  if (value > highest) place.fail(&in, fmt::format("an integer of at most {}", highest));
}

void check_number(double value, std::int64_t lowest, std::int64_t highest, const json& in,
                  const FieldPlace& place) {
  const bool is_low = !(value >= static_cast<double>(lowest));
  if (is_low) place.fail(&in, fmt::format("a number of at least {}", lowest));
  if (value > static_cast<double>(highest)) {
    place.fail(&in, fmt::format("a number of at most {}", highest));
  }
}

void fail_empty(const json& in, const FieldPlace& place) {
  place.fail(&in, in.is_string() ? "a text that is not empty" : "a list that is not empty");
}

std::string reason_in(const json& in, const char* name, bool is_known, const char* of,
                      const FieldPlace& outer) {
  const FieldPlace place = outer.field(name);
  const auto found = in.find(name);
  if (found == in.end()) place.fail(nullptr, "this field, it is required");
  const bool is_reason = found->is_string() && !found->get_ref<const std::string&>().empty();
  if (is_known ? !found->is_null() : !is_reason) {
    place.fail(&*found, is_known ? "null" : fmt::format("why {} is not known", of));
  }
  return is_known ? "" : found->get<std::string>();
}

std::string reason_for(const json& object, const char* name) {
  const json reasons = object.value("null_reasons", json());
  const auto reason = reasons.find(name);
  return reason != reasons.end() && reason->is_string() ? reason->get<std::string>() : "";
}

json object_schema(json properties, json required) {
  std::sort(required.begin(), required.end());
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

void refuse_unknown_fields(const json& in, const json& schema, const FieldPlace& place) {
  static const json kNone;
  const auto part = [&](const char* name) -> const json& {
    const auto found = schema.find(name);
    return found == schema.end() ? kNone : *found;
  };
  if (const json& items = part("items"); in.is_array() && !items.is_null()) {
    std::size_t index = 0;
    for (const json& item : in) refuse_unknown_fields(item, items, place.item(index++));
  }
  if (!in.is_object()) return;
  const json& properties = part("properties");
  const json& others = part("additionalProperties");
  for (const auto& [name, value] : in.items()) {
    const FieldPlace at = place.field(name);
    if (properties.contains(name)) {
      refuse_unknown_fields(value, properties.at(name), at);
    } else if (!others.is_null()) {
      refuse_unknown_fields(value, others, at);
    } else if (!properties.is_null()) {
      std::vector<std::string> names;
      for (const auto& [known, ignored] : properties.items()) names.push_back(known);
      at.fail(&value, fmt::format("none of this name, but {}", fmt::join(names, ", ")));
    }
  }
}

json or_null_schema(json schema) {
  if (schema.contains("type") && !schema["type"].is_array())
    schema["type"] = json::array({schema["type"], "null"});
  return schema;
}

}  // namespace fields_detail

}  // namespace gradsync
