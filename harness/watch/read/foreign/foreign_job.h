// A training job from files that others wrote of it, one of each rank: recordings as the watcher's
// own, that the same code judges.
//
//   torch.profiler's traces     kineto.h
//   Flight Recorder's dumps     flight_recorder.h
//   NCCL Inspector's files      nccl_inspector.h
#pragma once

#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns the ranks of the job of which `paths` are the files, by rank.
// Errors: ConfigError where one cannot be read or is none of these, where they are of several kinds
// or of several jobs, and where two are of one rank.
std::vector<RankEvents> read_foreign_job(const std::vector<std::string>& paths);

}  // namespace gradsync::watch
