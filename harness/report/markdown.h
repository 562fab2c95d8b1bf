// table.md: the page a run prints and a person pastes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradsync::report {

struct MarkdownOptions {
  std::string raw_directory;  // named in the last line; empty: no such line
};

// Returns the page: what ran and on what, then for each part of the plan what kind of compute it
// was, the table in the guide's layout, the detailed table, notes, and the finding in words.
// `reference` is results/reference/slowdown_table.json, or null where there is none.
// Every number comes from `result` (schema gradsync.result/1) or `reference`.
std::string result_markdown(const nlohmann::json& result, const nlohmann::json& reference,
                            const MarkdownOptions& options = {});

}  // namespace gradsync::report
