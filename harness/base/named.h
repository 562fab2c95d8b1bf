// Looking a name up in one of the suite's lists: models, strategies.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync {

// Returns the entry whose `name` is the one asked for; `kind` says what it is a name of ("model").
// Errors: ConfigError with every name there is.
template <typename Entry>
const Entry& find_named(const std::vector<Entry>& entries, const std::string& kind,
                        const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw ConfigError(
      fmt::format("unknown {} '{}', expected one of {}", kind, name, fmt::join(names, ", ")));
}

}  // namespace gradsync
