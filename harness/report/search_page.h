// What a search for the edge of memory found, for a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradsync::report {

inline constexpr const char* kSearchSchema = "gradsync.search/1";

// Returns the page for search.json: a row for each cell, and under it why each edge is where it is.
// `raw_directory` is named at the end.
std::string search_markdown(const nlohmann::json& search, const std::string& raw_directory);

}  // namespace gradsync::report
