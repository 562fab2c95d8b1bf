// What `gradsync search` found, for a terminal: an edge of memory, or the fastest way that fits.
#pragma once

#include <string>

#include "harness/summary/race.h"
#include "harness/summary/search.h"

namespace gradsync::report {

// Returns the page: a row for each cell, and under it why each edge is where it is.
// `raw_directory` is named at the end.
std::string search_markdown(const summary::Search& search, const std::string& raw_directory);

// Returns a row per way, with its peak, its time and how the race ended for it, and a sentence for
// each work. `raw_directory`: where the trials are.
std::string race_markdown(summary::Race race, const std::string& raw_directory);

}  // namespace gradsync::report
