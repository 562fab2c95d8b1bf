// The tables that the guide published, for the pages that print ours beside them.
#pragma once

#include <filesystem>

#include "harness/base/json_fields.h"
#include "harness/report/markdown.h"
#include "harness/session/paths.h"

namespace gradsync::session {

// Returns them; null for a file that this checkout lacks. Errors: ConfigError where one is no JSON.
inline report::References published_tables() {
  const auto read = [](const std::string& table) {
    const std::string file = source_file("results/reference/" + table + ".json");
    return std::filesystem::exists(file) ? read_json_file(file) : nlohmann::json();
  };
  return {.slowdown_table = read("slowdown_table"), .memory_table = read("memory_table")};
}

}  // namespace gradsync::session
