// What `gradsync search --fastest` prints.
#pragma once

#include <string>

#include "harness/summary/race.h"

namespace gradsync::report {

// Returns a row per way, with its peak, its time and how the race ended for it, and a sentence for
// each work. `raw_directory`: where the trials are.
std::string race_markdown(summary::Race race, const std::string& raw_directory);

}  // namespace gradsync::report
