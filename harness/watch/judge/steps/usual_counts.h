// The usual step of every rank of a watched job, as counts that can be held (harness/gate/).
#pragma once

#include <string>
#include <vector>

#include "harness/gate/held_counts.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct UsualCounts {
  gate::HeldCounts counts;  // of the ranks that took a step
  // "2 of 9 steps of rank 1 have the collectives of its usual one": of the first rank of which
  // fewer than half have, so that the next start may well have others; "": of none.
  std::string unsteady;
};

// Returns the counts of the usual step (usual_step.h) of those of the job's processes that count
// (examined.h). Of a job that took none they have no ranks.
UsualCounts usual_counts(const std::vector<RankEvents>& processes);

}  // namespace gradsync::watch
