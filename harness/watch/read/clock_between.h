// How far the clock of one watched host is from another's, told by what their ranks did together.
//
// What every rank ends with in an all_reduce, all_gather, reduce_scatter or barrier depends on what
// every rank brought: none of them has ended it before all have begun it. So of a collective whose
// last rank on host A began at a and first rank there ended at A, and on host B at b and B by that
// host's clock, the offset (B's clock minus A's) is at least b - A and at most B - a. Each
// collective bounds it, whatever the network took; together they bound it best (as Cristian 1989
// does with questions and answers). A clock that drifts moves the bounds: they are taken from the
// first and from the last ten seconds of what both hosts did, and the error covers the movement
// between.
//
// A kernel of NCCL's waits on its GPU for the other ranks. Kernels of one collective end together,
// as far as the wire allows: their ends differ by less than the shortest of them runs. So where
// both ran on GPUs, the offset is B - A within the shorter of A - a and B - b, and no closer than
// within 50 us, which ranks may take to see the end.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct ClockBetween {
  std::int64_t offset_ns = 0;  // the other host's clock minus ours
  std::int64_t error_ns = 0;   // at every moment of the job, taking the drift as steady
};

// Returns it for the ranks of two hosts; unknown, with the reason, where they have no such
// collective in common whose end is known (NCCL tells none), or where bounds contradict each other.
// Pure.
Known<ClockBetween> clock_between(const std::vector<const RankEvents*>& ours,
                                  const std::vector<const RankEvents*>& theirs);

// Puts the times of a process on our clock; where that is not known, notes so.
void put_on_clock(RankEvents& process, const Known<ClockBetween>& clock);

}  // namespace gradsync::watch
