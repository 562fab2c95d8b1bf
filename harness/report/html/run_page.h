// A run as a page that argues: what came out, its tables and pictures, what of the guide holds
// here, and how it was measured.
#pragma once

#include <string>
#include <vector>

#include "harness/report/published.h"
#include "harness/results/result.h"
#include "harness/summary/guide_claims.h"
#include "harness/summary/part_view.h"

namespace gradsync::html {

// Returns the page as one HTML file. Tables are those of the Markdown page (part_page.h), claims
// those of guide_claims.h; every number comes from `result` or `references`.
std::string run_page(const results::Result& result, const report::References& references,
                     const std::string& raw_directory);

// Parts of the page: what it says first, and its pictures.

// Returns one sentence, as text: the finding about memory, else the largest cost that is decided,
// else why it is not decided.
std::string answer_of(const results::Result& result,
                      const std::vector<summary::GuideClaim>& claims);

// Returns how the claims fared: one sentence as HTML, with a link to them (id "claims").
std::string lead_of(const std::vector<summary::GuideClaim>& claims);

// Returns bars of s/step with their intervals, a group for each setting; "" where no row has a
// time.
std::string step_pictures(const summary::PartView& part);

// Returns bars of the peak of a rank's tensors, with the budget where there is one; one sentence
// where all rows have the same peak; "" where it was measured in no row.
std::string memory_pictures(const summary::PartView& part);

}  // namespace gradsync::html
