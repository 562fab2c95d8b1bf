// The shortest possible step on a link, and so how much is left to gain.
//
// The terms of a step of m micro-batches, s of them synchronized over a link of known rate:
//
//   c   an unsynchronized micro-batch, from its forward to the next one's: computation alone, in
//       rows of the same setting in the same launch, by the rank where it takes longest.
//   r   from a synchronized micro-batch's forward to its first bucket, by the rank where that takes
//       longest: nothing can be sent before.
//   W   all of its buckets on the wire, w the last of them alone. A ring sends 2 (N - 1) / N of a
//       bucket's bytes over each link, at the rate that was measured, less the bytes that an idle
//       link lets through at once.
//   f   the optimizer.
//
// However buckets are divided and overlapped, a synchronized micro-batch computes (c), sends
// everything after the first bucket is there (r + W), and sends the last bucket after all is
// computed (c + w):
//
//   step >= f + (m - s) c + s max(c, r + W, c + w)
//
// step / bound says how far the engine is from it: 1.00 leaves nothing to gain but fewer
// synchronizations, fewer bytes or a faster link. It is a bound on what is measured here, and off
// by as much as c and r vary: they come from one recorded step of each trial.
//
// Source: the law 2 (N - 1) / N is that of ring all-reduce (Patarasuk and Yuan, "Bandwidth Optimal
// All-reduce Algorithms for Clusters of Workstations", 2009).
#pragma once

#include <vector>

#include "harness/base/known.h"
#include "harness/results/result.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// Returns the least time of a step of `micro_batches`, `syncs` of them synchronized, from the terms
// of a bound. Pure.
double least_step_s(const results::LowerBound& terms, double micro_batches, double syncs);

// Returns the bound of a row with these times, made of `group`; not known without a link that was
// measured, under wrappers other than DDP, and where no row of the setting has an unsynchronized
// micro-batch.
Known<results::LowerBound> lower_bound(const results::StepTimes& step_s,
                                       const results::Context& context,
                                       const std::vector<CellGroup>& groups,
                                       const CellGroup& group);

}  // namespace gradsync::summary
