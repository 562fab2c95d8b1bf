// What NCCL itself was called for (preload/nccl.cpp), beside what c10d was (preload/watcher.cpp).
//
// An operation of c10d's calls NCCL once, more often, or not at all:
//   once          all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, recv
//   several times coalesced ones, for each tensor; gathers and scatters of unequal parts, a
//                 broadcast or reduce for each; gather, scatter and all_to_all, sends and receives
//   otherwise     a barrier, an all_reduce of one element
//   not at all    on another backend, such as gloo for tensors of the host; in a job of one
//                 process, a gather, scatter or reduce_scatter, which are copies
// So what both saw is one event, c10d's. The calls it made are those on its thread until it
// returned, and their bytes must be its own. What NCCL was called for besides, by torch past c10d,
// by another library, or by a launch of a CUDA graph, is a collective of its own, whose `detail` is
// one of event_kind.h's. What was captured into a graph did not run then: it stays an event, and
// only the launches of the graph count (has_communicated).
#pragma once

#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Joins to `process` the calls that `nccl` has of the same process. Sizes that c10d did not tell
// are NCCL's. Where the two do not agree, `process` gets a fault that says which and by how much.
void merge_nccl(RankEvents& process, const RankEvents& nccl);

// Merges each of `nccl` into the process of `processes` with its process id, or adds it.
void add_nccl_calls(std::vector<RankEvents> nccl, std::vector<RankEvents>& processes);

}  // namespace gradsync::watch
