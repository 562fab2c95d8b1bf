// What a sweep found over all of its cells, in words: the law of a step, and the fastest of all.
#pragma once

#include <string>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::report {

// Return a sentence for each law, and for each best of all.
std::vector<std::string> law_findings(const summary::PartView& part);
std::vector<std::string> best_findings(const summary::PartView& part);

}  // namespace gradsync::report
