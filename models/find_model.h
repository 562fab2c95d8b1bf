// Looking up the model that a plan names, in whichever list of them.   No torch.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/base/named.h"

namespace gradsync::models {

// Returns the entry of that name; profiles are in no list (is_profile()).
// Errors: ConfigError naming those there are, and that a profile's path would do.
template <typename Entry>
const Entry& find_listed_model(const std::vector<Entry>& entries, const std::string& name) {
  try {
    return find_named(entries, "model", name);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}, or a profile's path ending in .json", error.what()));
  }
}

}  // namespace gradsync::models
