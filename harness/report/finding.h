// The closing sentence: what was found, in words, and only what was.
#pragma once

#include <string>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::report {

// Returns one sentence per setting of the part (topology and whatever else varies), such as "On 2
// nodes, syncing every micro-batch costs 2.20x [2.11, 2.30]; a no_sync that misses forward saves
// nothing." None where nothing was measured that could be compared.
std::vector<std::string> findings(const summary::PartView& part);

}  // namespace gradsync::report
