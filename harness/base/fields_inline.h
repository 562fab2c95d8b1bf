// The templates of fields.h; include that.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <utility>

#include "harness/base/fields.h"

namespace gradsync {

namespace fields_detail {
[[noreturn]] void fail_unnamed(int value);
}

template <typename Struct>
concept Listed = requires(const Struct* of) {
  fields_of(of);
};

// Goes before a list: a struct may be written as more than the fields that it reads.
template <typename Value>
concept WrittenInItsOwnWay = requires(const Value& value) {
  field_to_json(value);
};

template <typename Value>
concept ReadInItsOwnWay = requires(const nlohmann::json& in, Value& value,
                                   const FieldPlace& place) {
  field_from_json(in, value, place);
};

template <typename Struct>
concept CheckedOnceRead = requires(const Struct& object, const FieldCheck& check) {
  check_fields(object, check);
};

template <typename Enum>
concept Named = requires(const Enum* of) {
  names_of(of);
};

// Returns the name that a value has in files. Errors: InternalError for one without a name.
template <Named Enum>
std::string name_of(Enum value) {
  for (const auto& [known, name] : names_of(static_cast<const Enum*>(nullptr))) {
    if (known == value) return name;
  }
  fields_detail::fail_unnamed(static_cast<int>(value));
}

// Returns the value that has this name in files; nothing where none has.
template <Named Enum>
std::optional<Enum> value_named(std::string_view text) {
  for (const auto& [known, name] : names_of(static_cast<const Enum*>(nullptr))) {
    if (text == name) return known;
  }
  return std::nullopt;
}

namespace fields_detail {

using nlohmann::json;

bool boolean_from(const json& in, const FieldPlace& place);
std::int64_t integer_from(const json& in, const FieldPlace& place, std::int64_t lowest,
                          std::uint64_t highest, int bits);
double double_from(const json& in, const FieldPlace& place);
std::string string_from(const json& in, const FieldPlace& place);
const json::array_t& list_from(const json& in, const FieldPlace& place);
const json::object_t& object_from(const json& in, const FieldPlace& place);
json double_to_json(double value);
// Fail where the number is out of bounds; one that is NaN is.
void check_integer(std::int64_t value, std::int64_t lowest, std::int64_t highest, const json& in,
                   const FieldPlace& place);
void check_number(double value, std::int64_t lowest, std::int64_t highest, const json& in,
                  const FieldPlace& place);
[[noreturn]] void fail_empty(const json& in, const FieldPlace& place);
// Returns the reason that stands under `name`, "" for null. It must be there if the value is not.
std::string reason_in(const json& in, const char* name, bool is_known, const char* of,
                      const FieldPlace& outer);

// The reason that an object gives for a null under `name`; "" where it gives none.
std::string reason_for(const json& object, const char* name);

json object_schema(json properties, json required);
// Fails for a field of `in`, at any depth, that `schema` does not name.
void refuse_unknown_fields(const json& in, const json& schema, const FieldPlace& place);
json or_null_schema(json schema);

// How a struct with a list is written: field by field.
template <typename Struct>
struct ListFormat {
  static json to_json(const Struct& object) { return write_fields(object); }
  static void from_json(const json& in, Struct& object, const FieldPlace& place) {
    object_from(in, place);
    std::apply([&](const auto&... each) { (read(each, in, object, place), ...); },
               fields_of(static_cast<const Struct*>(nullptr)));
    if constexpr (CheckedOnceRead<Struct>) check_fields(object, FieldCheck(in, place));
  }
  static json schema() { return fields_schema<Struct>(); }

 private:
  template <typename Owner, typename Value>
  static void read(const Field<Owner, Value>& field, const json& in, Struct& object,
                   const FieldPlace& outer);
  template <typename Value>
  static void read(const ReasonedField<Struct, Value>& field, const json& in, Struct& object,
                   const FieldPlace& outer);
  template <typename Value>
  static void read(const FlatField<Struct, Value>& field, const json& in, Struct& object,
                   const FieldPlace& outer);
  template <typename Value>
  static void read(const ComputedField<Struct, Value>& field, const json& in, Struct& object,
                   const FieldPlace& outer);
  static void read(const ConstantField& field, const json& in, Struct&, const FieldPlace& outer) {
    const FieldPlace place = outer.field(field.name);
    const auto found = in.find(field.name);
    if (found == in.end()) place.fail(nullptr, field.value);
    if (*found != field.value) place.fail(&*found, field.value);
  }
};

template <typename Value>
struct FormatOf {
  static json to_json(const Value& value) {
    if constexpr (WrittenInItsOwnWay<Value>) {
      return field_to_json(value);
    } else {
      return value;
    }
  }
  static void from_json(const json& in, Value& value, const FieldPlace& place) {
    if constexpr (ReadInItsOwnWay<Value>) {
      field_from_json(in, value, place);
    } else {
      in.get_to(value);
    }
  }
  static json schema() { return field_schema(static_cast<const Value*>(nullptr)); }
};
template <Listed Struct>
requires(!WrittenInItsOwnWay<Struct>) struct FormatOf<Struct> : ListFormat<Struct> {
};

template <Named Enum>
struct FormatOf<Enum> {
  static json to_json(Enum value) { return name_of(value); }
  static void from_json(const json& in, Enum& value, const FieldPlace& place) {
    const auto named =
        in.is_string() ? value_named<Enum>(in.get_ref<const std::string&>()) : std::nullopt;
    if (named) {
      value = *named;
      return;
    }
    std::string names;
    for (const auto& [known, name] : kNames)
      names += (names.empty() ? "" : ", ") + std::string(name);
    place.fail(&in, "one of " + names);
  }
  static json schema() {
    json names = json::array();
    for (const auto& [known, name] : kNames) names.push_back(name);
    return {{"enum", std::move(names)}};
  }

 private:
  static constexpr auto kNames = names_of(static_cast<const Enum*>(nullptr));
};

template <>
struct FormatOf<bool> {
  static json to_json(bool value) { return value; }
  static void from_json(const json& in, bool& value, const FieldPlace& place) {
    value = boolean_from(in, place);
  }
  static json schema() { return {{"type", "boolean"}}; }
};

template <std::integral Integer>
struct FormatOf<Integer> {
  static json to_json(Integer value) { return value; }
  static void from_json(const json& in, Integer& value, const FieldPlace& place) {
    using Limits = std::numeric_limits<Integer>;
    value = static_cast<Integer>(integer_from(in, place, static_cast<std::int64_t>(Limits::min()),
                                              static_cast<std::uint64_t>(Limits::max()),
                                              8 * sizeof(Integer)));
  }
  static json schema() { return {{"type", "integer"}}; }
};

template <>
struct FormatOf<double> {
  static json to_json(double value) { return double_to_json(value); }
  static void from_json(const json& in, double& value, const FieldPlace& place) {
    value = double_from(in, place);
  }
  static json schema() { return {{"type", "number"}}; }
};

template <>
struct FormatOf<std::string> {
  static json to_json(const std::string& value) { return value; }
  static void from_json(const json& in, std::string& value, const FieldPlace& place) {
    value = string_from(in, place);
  }
  static json schema() { return {{"type", "string"}}; }
};

template <>
struct FormatOf<json> {
  static json to_json(const json& value) { return value; }
  static void from_json(const json& in, json& value, const FieldPlace&) { value = in; }
  static json schema() { return json::object(); }
};

template <typename Value>
struct FormatOf<std::optional<Value>> {
  static json to_json(const std::optional<Value>& value) {
    return value ? FormatOf<Value>::to_json(*value) : json(nullptr);
  }
  static void from_json(const json& in, std::optional<Value>& value, const FieldPlace& place) {
    value.reset();
    if (!in.is_null()) FormatOf<Value>::from_json(in, value.emplace(), place);
  }
  static json schema() { return or_null_schema(FormatOf<Value>::schema()); }
};

// The format of a field that may be absent (the outer optional is empty) or null (the inner one
// is).
template <typename Value>
struct FormatOf<std::optional<std::optional<Value>>> {
  using Inner = std::optional<Value>;
  static json to_json(const std::optional<Inner>& value) {
    return FormatOf<Inner>::to_json(value.value_or(std::nullopt));
  }
  static void from_json(const json& in, std::optional<Inner>& value, const FieldPlace& place) {
    FormatOf<Inner>::from_json(in, value.emplace(), place);
  }
  static json schema() { return FormatOf<Inner>::schema(); }
};

template <typename Value>
struct FormatOf<std::vector<Value>> {
  static json to_json(const std::vector<Value>& values) {
    json out = json::array();
    for (const Value& value : values) out.push_back(FormatOf<Value>::to_json(value));
    return out;
  }
  static void from_json(const json& in, std::vector<Value>& values, const FieldPlace& place) {
    values.clear();
    for (const json& item : list_from(in, place)) {
      const FieldPlace at = place.item(values.size());
      FormatOf<Value>::from_json(item, values.emplace_back(), at);
    }
  }
  static json schema() { return {{"type", "array"}, {"items", FormatOf<Value>::schema()}}; }
};

template <typename Value, std::size_t size>
struct FormatOf<std::array<Value, size>> {
  using List = std::vector<Value>;
  static json to_json(const std::array<Value, size>& values) {
    return FormatOf<List>::to_json({values.begin(), values.end()});
  }
  static void from_json(const json& in, std::array<Value, size>& values, const FieldPlace& place) {
    List list;
    FormatOf<List>::from_json(in, list, place);
    if (list.size() != size) place.fail(&in, "a list of " + std::to_string(size));
    std::ranges::move(list, values.begin());
  }
  static json schema() { return FormatOf<List>::schema(); }
};

template <typename Value>
struct FormatOf<std::map<std::string, Value>> {
  static json to_json(const std::map<std::string, Value>& values) {
    json out = json::object();
    for (const auto& [name, value] : values) out[name] = FormatOf<Value>::to_json(value);
    return out;
  }
  static void from_json(const json& in, std::map<std::string, Value>& values,
                        const FieldPlace& place) {
    values.clear();
    for (const auto& [name, value] : object_from(in, place)) {
      FormatOf<Value>::from_json(value, values[name], place.field(name));
    }
  }
  static json schema() {
    return {{"type", "object"}, {"additionalProperties", FormatOf<Value>::schema()}};
  }
};

template <typename Value>
struct FormatOf<Known<Value>> {
  static json to_json(const Known<Value>& value) {
    return value ? FormatOf<Value>::to_json(*value) : json(nullptr);
  }
  static void from_json(const json& in, Known<Value>& value, const FieldPlace& place) {
    Value known{};
    FormatOf<Value>::from_json(in, known, place);
    value = std::move(known);
  }
  static json schema() { return or_null_schema(FormatOf<Value>::schema()); }
};

template <typename Value>
inline constexpr bool kIsKnown = false;
template <typename Value>
inline constexpr bool kIsKnown<Known<Value>> = true;
template <typename Value>
inline constexpr bool kIsKnown<std::optional<Known<Value>>> = true;

template <typename OneField>
inline constexpr bool kHoldsKnown = false;
template <typename Struct, typename Value>
inline constexpr bool kHoldsKnown<Field<Struct, Value>> = kIsKnown<Value>;

template <typename... Fields>
constexpr bool any_known(const std::tuple<Fields...>&) {
  return (kHoldsKnown<Fields> || ...);
}

template <typename Value>
void note_reason(json& out, const char* name, const Known<Value>& value) {
  if (!value) out["null_reasons"][name] = value.why_not();
}
template <typename Value>
void note_reason(json& out, const char* name, const std::optional<Known<Value>>& value) {
  if (value) note_reason(out, name, *value);
}
template <typename Value>
void note_reason(json&, const char*, const Value&) {}

// Whether there is nothing in it: an empty text or list, 0, an optional without a value.
template <typename Value>
bool is_empty(const Value& value) {
  if constexpr (requires { value.empty(); }) return value.empty();
  if constexpr (requires { value.has_value(); }) return !value.has_value();
  if constexpr (std::is_arithmetic_v<Value>) return value == Value{};
  return false;
}

template <typename Value>
inline constexpr bool kIsList = false;
template <typename Value>
inline constexpr bool kIsList<std::vector<Value>> = std::is_arithmetic_v<Value>;

template <typename Owner, typename FieldValue, typename Value>
void check_bounds(const Field<Owner, FieldValue>& field, const Value& value, const json& in,
                  const FieldPlace& place) {
  if constexpr (std::is_same_v<Value, double>) {
    check_number(value, field.lowest, field.highest, in, place);
  } else if constexpr (std::is_integral_v<Value>) {
    check_integer(static_cast<std::int64_t>(value), field.lowest, field.highest, in, place);
  } else if constexpr (kIsKnown<Value> || requires { value.has_value(); }) {
    if (value) check_bounds(field, *value, in, place);
  } else if constexpr (kIsList<Value>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      check_bounds(field, value[i], in[i], place.item(i));
    }
  }
}

template <typename Owner, typename FieldValue, typename Value>
void check_read(const Field<Owner, FieldValue>& field, const Value& value, const json& in,
                const FieldPlace& place) {
  if (field.must_be_filled && is_empty(value)) fail_empty(in, place);
  using Limits = std::numeric_limits<std::int64_t>;
  if (field.lowest > Limits::min() || field.highest < Limits::max()) {
    check_bounds(field, value, in, place);
  }
}

template <typename Struct>
template <typename Owner, typename Value>
void ListFormat<Struct>::read(const Field<Owner, Value>& field, const json& in, Struct& object,
                              const FieldPlace& outer) {
  const FieldPlace place = outer.field(field.name);
  const auto found = in.find(field.name);
  if (found == in.end()) {
    if (!field.may_be_absent) place.fail(nullptr, "this field, it is required");
    return;
  }
  Value& value = object.*field.member;
  if (found->is_null() && (field.null_if_empty || field.null_if_negative)) return;
  if constexpr (kIsKnown<Value>) {
    if (found->is_null()) {
      value = Unknown{reason_for(in, field.name)};
      return;
    }
  }
  FormatOf<Value>::from_json(*found, value, place);
  check_read(field, value, *found, place);
}

template <typename Struct>
template <typename Value>
void ListFormat<Struct>::read(const ReasonedField<Struct, Value>& field, const json& in,
                              Struct& object, const FieldPlace& outer) {
  const auto& known = field.field;
  if (known.may_be_absent && !in.contains(known.name) && !in.contains(field.reason)) return;
  const FieldPlace place = outer.field(known.name);
  const auto found = in.find(known.name);
  if (found == in.end()) place.fail(nullptr, "this field, it is required");
  const std::string why = reason_in(in, field.reason, !found->is_null(), known.name, outer);
  if (found->is_null()) {
    object.*known.member = Unknown{why};
    return;
  }
  FormatOf<Known<Value>>::from_json(*found, object.*known.member, place);
  check_read(known, object.*known.member, *found, place);
}

template <typename Struct>
template <typename Value>
void ListFormat<Struct>::read(const FlatField<Struct, Value>& field, const json& in, Struct& object,
                              const FieldPlace& outer) {
  FormatOf<Value>::from_json(in, object.*field.member, outer);
}

template <typename Struct>
template <typename Value>
void ListFormat<Struct>::read(const ComputedField<Struct, Value>& field, const json& in,
                              Struct& object, const FieldPlace& outer) {
  if (field.expected == nullptr) return;
  const FieldPlace place = outer.field(field.name);
  const auto found = in.find(field.name);
  if (found == in.end()) place.fail(nullptr, field.expected);
  Value value{};
  FormatOf<Value>::from_json(*found, value, place);
  if (value != field.value(object)) place.fail(&*found, field.expected);
}

template <typename Owner, typename Value, typename Struct>
void write(const Field<Owner, Value>& field, const Struct& object, json& out) {
  const Value& value = object.*field.member;
  if (field.left_out_if_empty && is_empty(value)) return;
  if (field.null_if_empty && is_empty(value)) {
    out[field.name] = nullptr;
    return;
  }
  if constexpr (std::is_arithmetic_v<Value>) {
    if (field.null_if_negative && value < Value{}) {
      out[field.name] = nullptr;
      return;
    }
  }
  out[field.name] = FormatOf<Value>::to_json(value);
  note_reason(out, field.name, value);
}
template <typename Value, typename Struct>
void write(const ReasonedField<Struct, Value>& field, const Struct& object, json& out) {
  const Known<Value>& value = object.*field.field.member;
  out[field.field.name] = FormatOf<Known<Value>>::to_json(value);
  out[field.reason] = value.why_not().empty() ? json(nullptr) : json(value.why_not());
}
template <typename Value, typename Struct>
void write(const FlatField<Struct, Value>& field, const Struct& object, json& out) {
  out.update(FormatOf<Value>::to_json(object.*field.member));
}
template <typename Value, typename Struct>
void write(const ComputedField<Struct, Value>& field, const Struct& object, json& out) {
  out[field.name] = FormatOf<Value>::to_json(field.value(object));
}
template <typename Struct>
void write(const ConstantField& field, const Struct&, json& out) {
  out[field.name] = field.value;
}

// What is left out where it has no value is never null.
template <typename Value>
json schema_of(const Value*, bool) {
  return FormatOf<Value>::schema();
}
template <typename Value>
json schema_of(const std::optional<Value>*, bool left_out_if_empty) {
  return left_out_if_empty ? FormatOf<Value>::schema() : FormatOf<std::optional<Value>>::schema();
}

template <typename Struct, typename Value>
void describe(const Field<Struct, Value>& field, json& properties, json& required) {
  json schema = schema_of(static_cast<const Value*>(nullptr), field.left_out_if_empty);
  properties[field.name] = field.null_if_empty ? or_null_schema(std::move(schema)) : schema;
  if (!field.may_be_absent) required.push_back(field.name);
}
template <typename Struct, typename Value>
void describe(const ReasonedField<Struct, Value>& field, json& properties, json& required) {
  describe(field.field, properties, required);
  properties[field.reason] = FormatOf<std::optional<std::string>>::schema();
  if (!field.field.may_be_absent) required.push_back(field.reason);
}
template <typename Struct, typename Value>
void describe(const FlatField<Struct, Value>&, json& properties, json& required) {
  std::apply([&](const auto&... each) { (describe(each, properties, required), ...); },
             fields_of(static_cast<const Value*>(nullptr)));
}
template <typename Struct, typename Value>
void describe(const ComputedField<Struct, Value>& field, json& properties, json&) {
  properties[field.name] = FormatOf<Value>::schema();
}
inline void describe(const ConstantField& field, json& properties, json& required) {
  properties[field.name] = {{"const", field.value}};
  required.push_back(field.name);
}

}  // namespace fields_detail

template <typename Struct>
nlohmann::json write_fields(const Struct& object) {
  nlohmann::json out = nlohmann::json::object();
  if constexpr (fields_detail::any_known(fields_of(static_cast<const Struct*>(nullptr)))) {
    out["null_reasons"] = nlohmann::json::object();
  }
  std::apply([&](const auto&... each) { (fields_detail::write(each, object, out), ...); },
             fields_of(static_cast<const Struct*>(nullptr)));
  return out;
}

template <typename Struct>
Struct read_fields(const nlohmann::json& in, std::string_view file) {
  Struct object{};
  fields_detail::FormatOf<Struct>::from_json(in, object, FieldPlace(file));
  return object;
}

template <typename Struct>
Struct read_only_fields(const nlohmann::json& in, std::string_view file) {
  refuse_other_fields<Struct>(in, file);
  return read_fields<Struct>(in, file);
}

template <typename Struct>
void refuse_other_fields(const nlohmann::json& in, std::string_view file) {
  static const nlohmann::json kSchema = fields_schema<Struct>();
  fields_detail::refuse_unknown_fields(in, kSchema, FieldPlace(file));
}

template <typename Struct>
nlohmann::json fields_schema() {
  nlohmann::json properties = nlohmann::json::object();
  nlohmann::json required = nlohmann::json::array();
  std::apply(
      [&](const auto&... each) { (fields_detail::describe(each, properties, required), ...); },
      fields_of(static_cast<const Struct*>(nullptr)));
  if constexpr (fields_detail::any_known(fields_of(static_cast<const Struct*>(nullptr)))) {
    properties["null_reasons"] = {{"type", "object"},
                                  {"additionalProperties", {{"type", "string"}}}};
    required.push_back("null_reasons");
  }
  return fields_detail::object_schema(std::move(properties), std::move(required));
}

}  // namespace gradsync
