// table.md: the page a run prints and a person pastes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradsync::report {

struct MarkdownOptions {
  std::string raw_directory;  // named in the last line; empty: no such line
};

// The published tables, as data; null where there is none.
struct References {
  nlohmann::json slowdown_table;  // results/reference/slowdown_table.json
  nlohmann::json memory_table;    // results/reference/memory_table.json
};

// Returns the page: what ran and on what, then for each part of the plan what kind of compute it
// was, its table (of times, or of memory), notes, where a step went (attribution_table.h), the
// guide's own table where the part has its rows, and the finding in words. Every number comes from
// `result` (schema gradsync.result/1) or `references`.
std::string result_markdown(const nlohmann::json& result, const References& references,
                            const MarkdownOptions& options = {});

}  // namespace gradsync::report
