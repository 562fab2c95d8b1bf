#include "harness/plan/axis_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "harness/base/units.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

template <typename Value, typename Set>
Axis axis_of(const char* name, Value Cell::*field, Set set) {
  Axis axis;
  axis.name = name;
  axis.set = std::move(set);
  axis.get = [field](const Cell& cell) { return json(cell.*field); };
  return axis;
}

Axis integer_from(int least, const char* axis, int Cell::*field) {
  return axis_of(axis, field, [=](Cell& cell, const json& value) {
    if (!value.is_number_integer() || value < least || value > kLargestCount) {
      throw std::invalid_argument(fmt::format("an integer from {} to {}", least, kLargestCount));
    }
    cell.*field = value.get<int>();
  });
}

// Returns n, where `text` is `prefix` and n, such as "every_2"; else 0.
int number_after(const std::string& prefix, const std::string& text) {
  int number = 0;
  if (text.starts_with(prefix)) {
    std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
  }
  return text == prefix + std::to_string(number) ? number : 0;
}

}  // namespace

std::int64_t size_from_json(const json& value, const std::string& zero,
                            const std::string& example) {
  if (value.is_string()) return parse_size_bytes(value.get_ref<const std::string&>());
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return value;
  throw std::invalid_argument(
      fmt::format("a number of bytes, 0 for {}, or a text like \"{}\"", zero, example));
}

Axis name(const char* axis, std::string Cell::*field) {
  return axis_of(axis, field, [field](Cell& cell, const json& value) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      throw std::invalid_argument("a name");
    }
    cell.*field = value.get<std::string>();
  });
}

Axis one_of(const char* axis, std::string Cell::*field, std::vector<std::string> allowed) {
  return axis_of(axis, field, [field, allowed = std::move(allowed)](Cell& cell, const json& value) {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      throw std::invalid_argument(fmt::format("one of {}", fmt::join(allowed, ", ")));
    }
    cell.*field = value.get<std::string>();
  });
}

Axis count(const char* axis, int Cell::*field) {
  return integer_from(1, axis, field);
}

Axis count_from_zero(const char* axis, int Cell::*field) {
  return integer_from(0, axis, field);
}

Axis flag(const char* axis, bool Cell::*field) {
  return axis_of(axis, field, [field](Cell& cell, const json& value) {
    if (!value.is_boolean()) throw std::invalid_argument("true or false");
    cell.*field = value.get<bool>();
  });
}

Axis size(const char* axis, std::int64_t Cell::*field, const std::string& zero,
          const std::string& example) {
  return axis_of(axis, field, [=](Cell& cell, const json& value) {
    cell.*field = size_from_json(value, zero, example);
  });
}

Axis every_nth(const char* axis, int Cell::*field) {
  const std::string prefix = "every_";
  Axis nth = axis_of(axis, field, [=](Cell& cell, const json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : std::string();
    if (text == "none" || text == "full") {
      cell.*field = text == "none" ? 0 : 1;
    } else if (const int number = number_after(prefix, text); number >= 2) {
      cell.*field = number;
    } else {
      throw std::invalid_argument("none, full, every_2, every_3 and so on");
    }
  });
  nth.get = [=](const Cell& cell) -> json {
    const int number = cell.*field;
    return number == 0 ? "none" : number == 1 ? "full" : prefix + std::to_string(number);
  };
  return nth;
}

}  // namespace gradsync::plan
