// Finds the model that a plan names in a list of models. No torch.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/base/named.h"

namespace gradsync::models {

// Returns the entry of that name; profiles are in no list (is_profile()).
// Errors: ConfigError that lists the models there are, and says that a profile's path is also
// possible.
template <typename Entry>
const Entry& find_listed_model(const std::vector<Entry>& entries, const std::string& name) {
  try {
    return find_named(entries, "model", name);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}, or a profile's path ending in .json", error.what()));
  }
}

}  // namespace gradsync::models
