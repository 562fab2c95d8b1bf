// What sync_each_batch saves in memory and costs in time against no_sync, in words, and only what
// was found: where no_sync holds less, that is what is said.
#pragma once

#include <string>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::report {

// Returns one sentence for each setting of the part under FSDP with more
// than one micro-batch per step (with one, both do the same) in which both ran, such as "At
// accumulation 16, sync_each_batch costs 1.77x [1.70, 1.84] the time of no_sync and saves 1.2 GiB
// (12.1 for 13.3 GiB)." Peaks are exact, so their difference needs no interval. None where there is
// nothing to compare.
std::vector<std::string> memory_findings(const summary::PartView& part);

}  // namespace gradsync::report
