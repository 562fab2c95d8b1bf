// What can be said of files that hold collectives and nothing else of a step.
#pragma once

#include <string>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// "rank 0 has 24 all_reduce (48.0 KiB), train.py line 20; 6 broadcast (of unknown size)": most
// often first, by operation and the line that called.
std::string held_collectives(const RankEvents& rank);

}  // namespace gradsync::watch
