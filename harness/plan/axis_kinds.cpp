#include "harness/plan/axis_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/base/nearest.h"
#include "harness/base/units.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

// `parse`: returns the field's value for one as JSON; nothing: it is none.
template <typename Value, typename Parse>
Axis axis_of(const char* name, Value Cell::*field, const char* help, const std::string& expected,
             json schema, Parse parse) {
  Axis axis;
  axis.name = name;
  axis.help = help;
  axis.expected = expected;
  axis.schema = std::move(schema);
  axis.set = [=](Cell& cell, const json& value) {
    const std::optional<Value> parsed = parse(value);
    if (!parsed) throw std::invalid_argument(expected);
    cell.*field = *parsed;
  };
  axis.get = [field](const Cell& cell) { return json(cell.*field); };
  return axis;
}

Axis integer_from(int least, const char* axis, int Cell::*field, const char* help) {
  Axis integer =
      axis_of(axis, field, help, fmt::format("an integer from {} to {}", least, kLargestCount),
              {{"type", "integer"}, {"minimum", least}, {"maximum", kLargestCount}},
              [least](const json& value) -> std::optional<int> {
                if (!value.is_number_integer() || value < least || value > kLargestCount) {
                  return std::nullopt;
                }
                return value.get<int>();
              });
  integer.number = field;
  return integer;
}

// Returns n, where `text` is `prefix` and n, such as "every_2"; else 0.
int number_after(const std::string& prefix, const std::string& text) {
  int number = 0;
  if (text.starts_with(prefix)) {
    std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
  }
  return text == prefix + std::to_string(number) ? number : 0;
}

std::string size_expected(const std::string& zero, const std::string& example) {
  return fmt::format("a number of bytes, 0 for {}, or a text like \"{}\"", zero, example);
}

}  // namespace

std::int64_t size_from_json(const json& value, const std::string& zero,
                            const std::string& example) {
  if (value.is_string()) return parse_size_bytes(value.get_ref<const std::string&>());
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return value;
  throw std::invalid_argument(size_expected(zero, example));
}

Axis name(const char* axis, std::string Cell::*field, const char* help) {
  return axis_of(axis, field, help, "a name", {{"type", "string"}, {"minLength", 1}},
                 [](const json& value) -> std::optional<std::string> {
                   if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
                     return std::nullopt;
                   }
                   return value.get<std::string>();
                 });
}

Axis one_of(const char* axis, std::string Cell::*field, std::vector<std::string> allowed,
            const char* help) {
  return axis_of(axis, field, help, fmt::format("one of {}", fmt::join(allowed, ", ")),
                 {{"enum", allowed}}, [allowed](const json& value) -> std::optional<std::string> {
                   if (!value.is_string()) return std::nullopt;
                   const auto& text = value.get_ref<const std::string&>();
                   if (std::ranges::find(allowed, text) != allowed.end()) return text;
                   throw std::invalid_argument(one_of_names(text, allowed));
                 });
}

Axis count(const char* axis, int Cell::*field, const char* help) {
  return integer_from(1, axis, field, help);
}

Axis count_from_zero(const char* axis, int Cell::*field, const char* help) {
  return integer_from(0, axis, field, help);
}

Axis flag(const char* axis, bool Cell::*field, const char* help) {
  return axis_of(axis, field, help, "true or false", {{"type", "boolean"}},
                 [](const json& value) -> std::optional<bool> {
                   if (!value.is_boolean()) return std::nullopt;
                   return value.get<bool>();
                 });
}

Axis size(const char* axis, std::int64_t Cell::*field, const std::string& zero,
          const std::string& example, const char* help) {
  return axis_of(axis, field, help, size_expected(zero, example), {{"$ref", "#/$defs/size"}},
                 [=](const json& value) -> std::optional<std::int64_t> {
                   return size_from_json(value, zero, example);
                 });
}

Axis every_nth(const char* axis, int Cell::*field, const char* help) {
  const std::string prefix = "every_";
  Axis nth = axis_of(axis, field, help, "none, full, every_2, every_3 and so on",
                     {{"type", "string"}, {"pattern", "^(none|full|every_([2-9]|[1-9][0-9]+))$"}},
                     [=](const json& value) -> std::optional<int> {
                       if (value == "none") return 0;
                       if (value == "full") return 1;
                       const int number =
                           value.is_string() ? number_after(prefix, value.get<std::string>()) : 0;
                       return number >= 2 ? std::optional(number) : std::nullopt;
                     });
  nth.get = [=](const Cell& cell) -> json {
    const int number = cell.*field;
    return number == 0 ? "none" : number == 1 ? "full" : prefix + std::to_string(number);
  };
  nth.number = field;
  return nth;
}

Axis Axis::known_as(const std::vector<std::string>& values,
                    const std::vector<Prediction>& to) const {
  Axis changed = *this;
  for (const Prediction prediction : to) changed.known_to[prediction] = values;
  return changed;
}

Axis Axis::clash(bool (*with_cell)(const Cell&), const std::string& expected) const {
  Axis changed = *this;
  changed.clashes.emplace_back(with_cell, expected);
  return changed;
}

Axis Axis::unknown(Prediction to, const std::string& because) const {
  Axis changed = *this;
  changed.unknown_because[to] = because;
  return changed;
}

}  // namespace gradsync::plan
