// The account of one step (account/account.h), taken in an extra step after those of a trial: what
// every micro-batch of this rank adds to its gradients, and what the optimizer then finds there.
//
// The step is like all others of the trial, by the same strategy through the same wrapper, except
// that the optimizer reads and does not step: parameters stay as they are. It is neither timed nor
// in a measured peak. Beside the trial's hooks each sampled parameter has one that sees its
// gradient before it is accumulated, and so before anything is reduced.
#pragma once

#include <string>

#include "harness/account/records.h"
#include "harness/plan/plan.h"
#include "harness/run/workload.h"

namespace gradsync::run {

// At most this many parameters, or units of FSDP, evenly spread, are accounted.
inline constexpr std::size_t kMostAccounted = 32;

// Returns why `trial` has no account; "" if it has one. The same on every rank.
// `passes_over`: micro-batches that repeat the one before do not run.
std::string why_no_account(const RankContext& context, const plan::Trial& trial, bool passes_over);

// Returns this rank's records of one more step. Collective: all ranks, same trial.
// Cost: that step, and a pass over each sampled gradient.
account::AccountRecords account_step(const RankContext& context, Workload& workload,
                                     sync::Strategy& strategy, const plan::Trial& trial);

}  // namespace gradsync::run
