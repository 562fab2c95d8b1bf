// What a rank of a training job in Python will hold at most, from a profile that recorded the
// model's memory. The cell says how it would be trained; the model's own sizes are the profile's.
// Pure.   No torch.
#pragma once

#include "harness/memory/memory_prediction.h"
#include "models/memory_profile.h"

namespace gradsync::memory {

// `units`: modules that fully_shard is called with, as models::modules_named() returns them.
// `ranks`, `backend` ("gloo" or "nccl"): of the job; `cell`'s topology is not read.
MemoryPrediction predict_job_memory(const models::MemoryProfile& profile, const plan::Cell& cell,
                                    const std::vector<std::size_t>& units, int ranks,
                                    const std::string& backend = "gloo");

}  // namespace gradsync::memory
