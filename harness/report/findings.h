// The findings of a part, in closing sentences.
#pragma once

#include <string>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::report {

// Returns one sentence per setting of the part (topology and whatever else varies), such as "On 2
// nodes, syncing every micro-batch costs 2.20x [2.11, 2.30]; a no_sync that misses forward saves
// nothing." None if nothing that can be compared was measured.
std::vector<std::string> findings(const summary::PartView& part);

// Returns what sync_each_batch saves in memory and costs in time against no_sync: one sentence for
// each setting under FSDP with more than one micro-batch per step (with one, both do the same) in
// which both ran, such as "At accumulation 16, sync_each_batch costs 1.77x [1.70, 1.84] the time of
// no_sync and saves 1.2 GiB (12.1 for 13.3 GiB)."; where no_sync holds less, the sentence says
// that. Peaks are exact, so their difference needs no interval. None where there is nothing to
// compare.
std::vector<std::string> memory_findings(const summary::PartView& part);

// Returns for each Pareto front what the least memory costs in time.
std::vector<std::string> front_findings(const summary::PartView& part);

// Return what a sweep found over all of its cells: a sentence for each law of a step, and for each
// fastest of all.
std::vector<std::string> law_findings(const summary::PartView& part);
std::vector<std::string> best_findings(const summary::PartView& part);

}  // namespace gradsync::report
