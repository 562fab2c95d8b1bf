// table.md: the page a run prints and a person pastes.
#pragma once

#include <string>

#include "harness/report/published.h"
#include "harness/results/result.h"

namespace gradsync::report {

struct MarkdownOptions {
  std::string raw_directory;  // named in the last line; empty: no such line
};

// Returns the page: what ran and on what, then for each part of the plan what kind of compute it
// was, its table (of times, or of memory), notes, where a step went, the
// guide's own table where the part has its rows, and the finding in words. Every number comes from
// `result` or `references`.
std::string result_markdown(const results::Result& result, const References& references,
                            const MarkdownOptions& options = {});

}  // namespace gradsync::report
