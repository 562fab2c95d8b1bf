// A job on several hosts, each of which was watched into a folder of its own: put together as if
// one watcher had seen it.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns whether these folders are hosts of one job: several, with ranks of one world, of which
// none is in two of them. Two runs of a job both have its rank 0. Reads headers alone.
bool are_hosts_of_one_job(const std::vector<std::string>& folders);

// Returns the ranks of all of them, or of the only one, by rank. Times are of the clock of the host
// with the lowest one; how well others are known there stands in `clock_error_ns`, and in a fault
// for each host. Errors: as read_events().
std::vector<RankEvents> read_hosts(const std::vector<std::string>& folders);

}  // namespace gradsync::watch
