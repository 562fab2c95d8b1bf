// What a search for the edge of memory found, for a terminal.
#pragma once

#include <string>

#include "harness/summary/search.h"

namespace gradsync::report {

// Returns the page: a row for each cell, and under it why each edge is where it is.
// `raw_directory` is named at the end.
std::string search_markdown(const summary::Search& search, const std::string& raw_directory);

}  // namespace gradsync::report
