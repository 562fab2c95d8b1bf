// A run as a page that argues: what came out, its tables and pictures, what of the guide holds
// here, and how it was measured.
#pragma once

#include <string>

#include "harness/report/published.h"
#include "harness/results/result.h"

namespace gradsync::html {

// Returns the page as one HTML file. Tables are those of the Markdown page (part_page.h), claims
// those of guide_claims.h; every number comes from `result` or `references`.
std::string run_page(const results::Result& result, const report::References& references,
                     const std::string& raw_directory);

}  // namespace gradsync::html
