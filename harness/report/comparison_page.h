// The page that `gradsync report A B` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/summary/run_comparison.h"

namespace gradsync::report {

// Returns a comparison (run_comparison.h) as Markdown: the two runs; what differs between their
// contexts and whether that forbids a comparison of times; then for each part of the plan the times
// and their ratio where they may be compared, slowdowns, counts and bytes; and at the end the cells
// that only one run has. Every number comes from `comparison`.
std::string comparison_markdown(const summary::RunComparison& comparison);

// Returns its three tables of one part (times, slowdowns, collectives) and the notes below each;
// `context` is that of the first run. If no cell has a ratio of times, a reason stands in place of
// the table of times. A run in which a trial of a cell failed shows its status and no numbers.
std::string comparison_tables(const results::Context& context,
                              const std::vector<const summary::ComparedCell*>& cells);

// Returns `value` of a context's `field` for people, in one short line: "954.8 Mbit/s", "0.0148",
// "-" where it is not known.
std::string context_value_text(const std::string& field, const nlohmann::json& value);

}  // namespace gradsync::report
