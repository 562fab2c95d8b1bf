// The closing sentence: what was found, in words, and only what was.
#pragma once

#include <string>

#include "harness/report/part_view.h"

namespace gradsync::report {

// A misplaced no_sync "saves nothing" when its step is within this of the baseline's, or not told
// apart from it and within three times this. Larger: claims equality more readily.
inline constexpr double kSameWithin = 0.03;

// Returns one sentence per setting of the part (topology and whatever else varies), each on its own
// line, such as "On 2 nodes, syncing every micro-batch costs 2.20x [2.11, 2.30]; a no_sync that
// misses forward saves nothing." Returns "" where nothing was measured that could be compared.
std::string findings(const PartView& part);

}  // namespace gradsync::report
