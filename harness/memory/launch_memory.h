// Estimates the memory of the workloads of one launch on a rank, before it starts: can all of them
// stay in memory while they take turns, and does each fit at all? Without this, the kernel would
// kill ranks that share a machine's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/launch/launch_spec.h"
#include "harness/plan/plan.h"

namespace gradsync::memory {

// Memory of a rank's process beside its tensors: data of torch's libraries, threads, gloo.
inline constexpr std::int64_t kProcessBytes = std::int64_t{256} << 20;

// Returns an estimate of the peak memory of a rank that runs `cell`, in bytes: the prediction,
// without the options that it does not know. Nothing if the model has no prediction, or if tensors
// are folded or not in the host's memory.
std::optional<std::int64_t> estimated_peak_bytes(const plan::Cell& cell,
                                                 const launch::LaunchSpec& where);

// Returns the peak memory of a rank, in bytes, if every workload of `trials` stays and one of them
// runs. Models without an estimate count as 0: they are small.
std::int64_t together_bytes(const std::vector<plan::Trial>& trials,
                            const launch::LaunchSpec& where);

}  // namespace gradsync::memory
