// Looking a name up in one of the suite's lists: models, strategies, axes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/base/nearest.h"

namespace gradsync {

// Returns the entry of that name, null where there is none.
template <typename Entry>
const Entry* entry_named(const std::vector<Entry>& entries, const std::string& name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

// Returns the entry whose `name` is the one asked for; `kind` says what it is a name of ("model").
// Errors: ConfigError with the nearest names, or all that there are.
template <typename Entry>
const Entry& find_named(const std::vector<Entry>& entries, const std::string& kind,
                        const std::string& name) {
  if (const Entry* entry = entry_named(entries, name)) return *entry;
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  throw ConfigError(
      fmt::format("unknown {} '{}', expected {}", kind, name, one_of_names(name, names)));
}

}  // namespace gradsync
