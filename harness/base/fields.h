// The fields of a struct as its file has them, in one list: it is read by that list, written by it
// and described by it. Include it where a file or a pipe is read or written, not where its types
// are used: lists are templates.
//
//   constexpr auto fields_of(const Span*) {  // beside Span, in its namespace
//     return std::tuple{GRADSYNC_FIELDS(Span, start_s, end_s),
//                       field("unit", &Span::unit).spared()};
//   }
//   nlohmann::json out = write_fields(span);
//   Span back = read_fields<Span>(out, "spans.json");
//
// A field is of a type with a list of its own, bool, an integer, double, string, nlohmann::json
// (whatever stands there), an optional, vector, array or map of these; an enum with names_of(const
// E*), an array of {E::Value, "its name"}; an optional of an optional, which may be absent and may
// be null; or Known<T>: null where it is not known, with its reason under its name in
// "null_reasons" of the same object. A type that is written in its own way has
// field_to_json(value), field_from_json(in, value, place) and field_schema(const Type*) beside it,
// those of them that are needed, wherever it is read or written; or nlohmann's to_json and
// from_json.
//
// JSON has no NaN: a double that is not finite is null, and null is NaN. Fields that no list names
// are passed over, since a newer version may have added them; read_only_fields refuses them, in
// what people write.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/base/known.h"

namespace gradsync {

// Where a value stands in its file; put into words only for a complaint.
class FieldPlace {
 public:
  explicit FieldPlace(std::string_view file) : file_(file) {}
  FieldPlace field(std::string_view name) const { return FieldPlace(*this, name, 0); }
  FieldPlace item(std::size_t index) const { return FieldPlace(*this, "", index); }

  // Throws ConfigError "FILE: field 'a.b[3].c': got G, expected E"; `got` null: nothing is there.
  [[noreturn]] void fail(const nlohmann::json* got, const std::string& expected) const;

 private:
  FieldPlace(const FieldPlace& outer, std::string_view name, std::size_t index)
      : file_(outer.file_), outer_(&outer), name_(name), index_(index) {}
  std::string path() const;

  std::string_view file_;
  const FieldPlace* outer_ = nullptr;
  std::string_view name_;  // empty: an item of a list
  std::size_t index_ = 0;
};

// What must hold between the fields of one object. A struct that has such rules has
// check_fields(value, const FieldCheck&) beside its list, which is called once it is read.
class FieldCheck {
 public:
  FieldCheck(const nlohmann::json& in, const FieldPlace& place) : in_(in), place_(place) {}
  // Throws ConfigError about field `name` unless `holds`.
  void that(bool holds, const char* name, const std::string& expected) const;

 private:
  const nlohmann::json& in_;
  const FieldPlace& place_;
};

template <typename Struct>
nlohmann::json write_fields(const Struct& object);

// Errors: ConfigError for a field that is missing, of another type, or too large for its own.
template <typename Struct>
Struct read_fields(const nlohmann::json& in, std::string_view file);

// Reads the same from a file that people write, in which a name may be misspelt.   Errors: also
// ConfigError for a field that no list names.
template <typename Struct>
Struct read_only_fields(const nlohmann::json& in, std::string_view file);

// Throws ConfigError for a field of `in` that no list of Struct names.
template <typename Struct>
void refuse_other_fields(const nlohmann::json& in, std::string_view file);

// Returns the JSON Schema of the struct: names, types and what is required. What a field means, and
// narrower bounds, are said by the schema files beside the results.
template <typename Struct>
nlohmann::json fields_schema();

// One field. By default it is always written, and required in what is read.
template <typename Struct, typename Value>
struct Field {
  const char* name;
  Value Struct::*member;
  bool may_be_absent = false;
  bool left_out_if_empty = false;
  bool null_if_empty = false;
  bool null_if_negative = false;
  bool must_be_filled = false;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();

  // It came later: files without it are older, and it then has its default.
  constexpr Field later() const {
    Field changed = *this;
    changed.may_be_absent = true;
    return changed;
  }
  // It is written only where there is something in it: no empty text or list, no 0, no optional
  // without a value.
  constexpr Field spared() const {
    Field changed = later();
    changed.left_out_if_empty = true;
    return changed;
  }
  // A text, number, list or map for which empty means unknown, which is null.
  constexpr Field or_null() const {
    Field changed = *this;
    changed.null_if_empty = true;
    return changed;
  }
  // A number for which less than 0 means unknown, which is null.
  constexpr Field or_null_below_0() const {
    Field changed = at_least(0);
    changed.null_if_negative = true;
    return changed;
  }
  // What is read has something in it: an empty text or list is refused.
  constexpr Field filled() const {
    Field changed = *this;
    changed.must_be_filled = true;
    return changed;
  }
  // Bounds of a number that is read, and of each in a list.
  constexpr Field at_least(std::int64_t number) const {
    Field changed = *this;
    changed.lowest = number;
    return changed;
  }
  constexpr Field at_most(std::int64_t number) const {
    Field changed = *this;
    changed.highest = number;
    return changed;
  }
};

template <typename Struct, typename Value>
constexpr Field<Struct, Value> field(const char* name, Value Struct::*member) {
  return {name, member};
}

// Fields that have the names of their members: GRADSYNC_FIELDS(Span, start_s, end_s) makes
// field("start_s", &Span::start_s), field("end_s", &Span::end_s).
#define GRADSYNC_FIELDS(Type, ...) GRADSYNC_READ_64_TIMES(GRADSYNC_EACH_FIELD(, Type, __VA_ARGS__))
#define GRADSYNC_LATER_FIELDS(Type, ...) \
  GRADSYNC_READ_64_TIMES(GRADSYNC_EACH_FIELD(.later(), Type, __VA_ARGS__))
#define GRADSYNC_SPARED_FIELDS(Type, ...) \
  GRADSYNC_READ_64_TIMES(GRADSYNC_EACH_FIELD(.spared(), Type, __VA_ARGS__))
#define GRADSYNC_FIELDS_FROM(number, Type, ...) \
  GRADSYNC_READ_64_TIMES(GRADSYNC_EACH_FIELD(.at_least(number), Type, __VA_ARGS__))
// The list of a struct whose fields all have the names of their members.
#define GRADSYNC_FIELDS_OF(Type, ...)                      \
  constexpr auto fields_of(const Type*) {                  \
    return std::tuple{GRADSYNC_FIELDS(Type, __VA_ARGS__)}; \
  }

// A macro does not call itself, but may leave a call for when its text is read again.
#define GRADSYNC_EACH_FIELD(how, Type, name, ...) \
  field(#name, &Type::name) how __VA_OPT__(       \
      , GRADSYNC_NEXT_FIELD GRADSYNC_NOTHING(how, Type, __VA_ARGS__))
#define GRADSYNC_NOTHING ()
#define GRADSYNC_NEXT_FIELD() GRADSYNC_EACH_FIELD
#define GRADSYNC_READ_64_TIMES(...) \
  GRADSYNC_READ_16(GRADSYNC_READ_16(GRADSYNC_READ_16(GRADSYNC_READ_16(__VA_ARGS__))))
#define GRADSYNC_READ_16(...) \
  GRADSYNC_READ_4(GRADSYNC_READ_4(GRADSYNC_READ_4(GRADSYNC_READ_4(__VA_ARGS__))))
#define GRADSYNC_READ_4(...) GRADSYNC_READ(GRADSYNC_READ(GRADSYNC_READ(GRADSYNC_READ(__VA_ARGS__))))
#define GRADSYNC_READ(...) __VA_ARGS__

// A Known whose reason stands in a field of its own, null where the value is known.
template <typename Struct, typename Value>
struct ReasonedField {
  Field<Struct, Known<Value>> field;
  const char* reason;
};

template <typename Struct, typename Value>
constexpr ReasonedField<Struct, Value> with_reason(const char* reason,
                                                   Field<Struct, Known<Value>> field) {
  return {field, reason};
}

// A struct whose fields stand beside the others, in the same object.
template <typename Struct, typename Value>
struct FlatField {
  Value Struct::*member;
};

template <typename Struct, typename Value>
constexpr FlatField<Struct, Value> beside(Value Struct::*member) {
  return {member};
}

// A field that is made of those before it when it is written. When read it is passed over, or must
// be what they make.
template <typename Struct, typename Value>
struct ComputedField {
  const char* name;
  Value (*value)(const Struct&);
  const char* expected = nullptr;  // set: it is required, and another value is refused

  constexpr ComputedField must_be(const char* what) const { return {name, value, what}; }
};

template <typename Struct, typename Value>
constexpr ComputedField<Struct, Value> computed(const char* name, Value (*value)(const Struct&)) {
  return {name, value};
}

// A field that says what the file is, the same in all of them.
struct ConstantField {
  const char* name;
  const char* value;
};

constexpr ConstantField constant(const char* name, const char* value) {
  return {name, value};
}

}  // namespace gradsync

#include "harness/base/fields_inline.h"
