// A value that may be unknown, as JSON has it: null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace gradsync {

template <typename Value>
nlohmann::json optional_to_json(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace gradsync
