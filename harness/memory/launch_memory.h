// What the workloads of one launch hold on a rank, estimated before it starts: whether they can all
// stay in memory while they take turns, and whether each fits at all. Ranks of a launch that share
// a machine's memory would else be ended by its kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/launch/launch_spec.h"
#include "harness/plan/plan.h"

namespace gradsync::memory {

// What a rank's process takes beside its tensors: torch's libraries' own data, threads, gloo.
inline constexpr std::int64_t kProcessBytes = std::int64_t{256} << 20;

// Returns an estimate of what a rank that runs `cell` holds at its peak, in bytes: the prediction,
// made also where options are set that it does not know, without them. Nothing where nothing is
// declared for the model, or tensors are folded or not the host's.
std::optional<std::int64_t> estimated_peak_bytes(const plan::Cell& cell,
                                                 const launch::LaunchSpec& where);

// Returns what a rank holds at most where every workload of `trials` stays and one of them runs, in
// bytes. Models without an estimate count as nothing: they are small.
std::int64_t together_bytes(const std::vector<plan::Trial>& trials,
                            const launch::LaunchSpec& where);

}  // namespace gradsync::memory
