// One line per cell, for spreadsheets and data frames.
#pragma once

#include <string>

#include "harness/results/result.h"

namespace gradsync::report {

// Returns result.json's cells as CSV (RFC 4180): a head line, then a line per cell; parameters
// first, names and units as in result.json. Unknown is an empty field. Lines end in CR LF.
std::string result_csv(const results::Result& result);

}  // namespace gradsync::report
