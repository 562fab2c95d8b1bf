// What each process group did in a step, and what its replicas did.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

struct GroupCounts {
  OpSums collectives;
  OpSums excess;
};
// By the number of the group; 0: calls of NCCL's, whose group is not known.
using ByGroup = std::map<std::int64_t, GroupCounts>;

// Returns the collectives of the step by group, of which those in `excess` are more than enough.
ByGroup by_group(const Step& step, const EventPointers& excess);

// When the replicas of sharded models were synchronized, by micro-batch of the step.
struct ReplicaCounts {
  int micro_batches = 0;    // in which shards that have replicas were added up, or these
  int synchronized = 0;     // of these, those in which replicas were
  int behind_the_last = 0;  // of these, those after the last such
  std::vector<const MicroBatch*> excess;  // that did so although a later one does
};

// Returns it without `excess`.
ReplicaCounts count_replicas(const Step& step);

}  // namespace gradsync::watch
