// The content of a page about a run and each of its parts, for every format (text/blocks.h).
#pragma once

#include <string>
#include <vector>

#include "harness/report/published.h"
#include "harness/results/result.h"
#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// In the order in which Markdown has it.
struct PartPage {
  std::string name;                // "" where the plan has no parts
  std::string about;               // from the plan; may be empty
  std::vector<std::string> terms;  // what kind of compute it was, and what its rows share
  text::Blocks table;              // of times, or of memory
  text::Bullets notes;
  text::Blocks more;                  // spread, where a step went, the guide's own table
  std::vector<std::string> findings;  // a sentence each
};

// Every number comes from `part` or `references`.
PartPage part_page(const summary::PartView& part, const References& references);

// Returns what ran and on what, then the warnings, a line each.
std::vector<std::string> head_lines(const results::Result& result);

// "plan smoke: 4 strategies x 2 topologies x 1 launch, interleaved, seed 42"
std::string plan_line(const results::Result& result);

}  // namespace gradsync::report
