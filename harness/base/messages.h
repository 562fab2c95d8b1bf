// The messages that go one way through a pipe or a connection, each an object of JSON on one line:
// a struct each, whose list of fields (fields.h) begins with its name.
//
//   struct Ready {};
//   GRADSYNC_MESSAGE(Ready, "event", "ready")  // then the names of its members
//   using Said = std::variant<Ready, Failed>;
//
//   nlohmann::json line = write_fields(Ready{});
//   Said said = read_message<Said>(line, "rank 1");
//
// Include it where messages are read or written: lists are templates.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <variant>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

// The list of a message whose fields all have the names of their members.
#define GRADSYNC_MESSAGE(Type, key, name, ...)                                               \
  constexpr auto fields_of(const Type*) {                                                    \
    return std::tuple{constant(key, name) __VA_OPT__(, GRADSYNC_FIELDS(Type, __VA_ARGS__))}; \
  }

namespace gradsync {

namespace messages_detail {

[[noreturn]] inline void refuse(const nlohmann::json& in, std::string_view from,
                                const std::string& why) {
  throw InternalError(fmt::format("{} said what is no message: {} ({})", from, quote(in), why));
}

inline bool says(const nlohmann::json& in, const ConstantField& name) {
  if (!in.is_object()) return false;
  const auto found = in.find(name.name);
  return found != in.end() && *found == name.value;
}

template <typename Message>
constexpr ConstantField name_of_message() {
  return std::get<0>(fields_of(static_cast<const Message*>(nullptr)));
}

template <typename Any, typename Message>
bool read_if_it_is(const nlohmann::json& in, std::string_view from, Any& said) {
  if (!says(in, name_of_message<Message>())) return false;
  said = read_fields<Message>(in, from);
  return true;
}

template <typename Any, typename... Message>
Any read_one_of(const nlohmann::json& in, std::string_view from, const std::variant<Message...>*) {
  Any said;
  try {
    if ((read_if_it_is<Any, Message>(in, from, said) || ...)) return said;
  } catch (const std::exception& error) {
    refuse(in, from, error.what());
  }
  refuse(in, from, "unknown");
}

}  // namespace messages_detail

// Returns the message that `in` is. `Any` is a variant of them; `from` names who sent it.
// Errors: InternalError where it is none of them: both ends are of one build.
template <typename Any>
Any read_message(const nlohmann::json& in, std::string_view from) {
  return messages_detail::read_one_of<Any>(in, from, static_cast<const Any*>(nullptr));
}

// Makes one visitor for std::visit from a function for each message.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace gradsync
