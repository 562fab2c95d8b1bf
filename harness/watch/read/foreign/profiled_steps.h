// What GPUs did in the steps that `gradsync watch --seconds` had torch.profiler record
// (inject/hook/gradsync_watch_seconds.py): the seconds of `gradsync judge`, in the events of the
// watcher.
//
//   watcher   all_reduce  all_reduce | all_reduce  all_reduce | all_reduce  all_reduce | all_reduce
//   trace                            | all_reduce  all_reduce | all_reduce  all_reduce |
//                                    ^ does not count         ^ counts                 ^
//
// Both see each call of c10d on its thread. In the recorded steps they must agree on all of them,
// by name and order. That pairs them, and puts the trace on the watcher's clock: by the median of
// how far apart they saw a call begin. The first recorded step does not count: the profiler begins
// in it.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

// Adds to `rank` what its GPU did by `trace`, in the steps within RankEvents::profiled, which must
// be there; or a fault that says why that is not known.
void add_profiled_steps(RankEvents& rank, const TraceFile& trace);

// Does so for each of `ranks` whose process left such a trace in `directory`. Cost: seconds for
// each trace.
void add_profiled_steps(std::vector<RankEvents>& ranks, const std::string& directory);

}  // namespace gradsync::watch
