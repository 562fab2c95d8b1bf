// Predicts the peak memory of a rank in a trial, before it runs: the formula of the cell's wrapper,
// applied to the footprint of its model. Pure, apart from reading a profile.   No torch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/launch/launch_spec.h"
#include "harness/memory/memory_account.h"
#include "harness/plan/plan.h"
#include "models/memory_profile.h"
#include "models/unit_levers.h"

namespace gradsync::memory {

// Distinct micro-batches made ready per rank; more only costs memory, since all have one shape.
inline constexpr int kPreparedBatches = 32;

struct MemoryPrediction {
  std::optional<StepMemory> memory;
  std::string unknown_because;  // where there is no prediction; else empty
};

// `where`: topology, device, window rule, threads and data of the launch; its trials are not read.
// On a GPU it also predicts whether the cell runs out of its memory or its budget.
// Errors: ConfigError for a bad profile.
MemoryPrediction predict_memory(const plan::Cell& cell, const launch::LaunchSpec& where);

models::CheckpointedUnits checkpointed_units(const plan::Cell& cell);

models::LoraUpdates lora_updates(const plan::Cell& cell);

// Returns the type, "float32" or "bfloat16", in which a cell's model computes: that of its
// parameters as they are stored, under fsdp as they are gathered.
const std::string& computed_dtype(const plan::Cell& cell);

// Returns the bytes of an element of a cell's `dtype`, "float32" or "bfloat16".
int element_bytes(const std::string& dtype);

// Predicts the same for a rank of a training job in Python, from a profile that recorded the
// model's memory. The cell says how the model would be trained; its sizes come from the profile.
// `units`: modules that fully_shard is called with, as models::modules_named() returns them.
// `ranks`, `backend` ("gloo" or "nccl"): of the job; `cell`'s topology is not read.
MemoryPrediction predict_job_memory(const models::MemoryProfile& profile, const plan::Cell& cell,
                                    const std::vector<std::size_t>& units, int ranks,
                                    const std::string& backend = "gloo");

}  // namespace gradsync::memory
