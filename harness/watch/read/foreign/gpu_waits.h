// For which collectives the computation of a GPU waited, and not for its host.
//
//   compute  |== kernel ==|······· gap ·······|== kernel ==|
//   NCCL          |======= all_reduce =======|
//   host      launches both kernels       -> all of the gap waits for the all_reduce
//                           launches the second one here     -> none of it does
//                           waits for the GPU (item)         -> as long as the host does, too
//
// The gap ends with its collective: time in a gap behind the last collective that ends in it, and
// all of a gap in which none ends, is the host's. What counts is the stream that computes most.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

using LaunchByCorrelation = std::unordered_map<std::int64_t, const TracedLaunch*>;

// Returns the call that launched `work`; null where the file has none.
const TracedLaunch* launch_of(const TracedWork& work, const LaunchByCorrelation& launches);

// Returns when the computation among `work`, all of which ran on one GPU, waited for a collective.
GpuSpans waits_for_collectives(const std::vector<const TracedWork*>& work, const TraceFile& trace,
                               const LaunchByCorrelation& launches);

}  // namespace gradsync::watch
