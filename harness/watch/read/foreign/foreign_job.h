// A training job from the traces that torch.profiler wrote of it (kineto.h), one of each rank:
// recordings as the watcher's own, that the same code judges.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns the ranks of the job of which `paths` are the files, by rank.
// Errors: ConfigError where one cannot be read or is no trace, where they are of several jobs, and
// where two are of one rank.
std::vector<RankEvents> read_foreign_job(const std::vector<std::string>& paths);

}  // namespace gradsync::watch
