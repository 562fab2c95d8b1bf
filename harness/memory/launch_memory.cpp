#include "harness/memory/launch_memory.h"

#include <algorithm>

#include "harness/memory/memory_prediction.h"
#include "harness/plan/known_options.h"

namespace gradsync::memory {
namespace {

std::optional<StepMemory> estimate(plan::Cell cell, launch::LaunchSpec where) {
  if (where.device != "cpu" || where.fold_from_bytes > 0) return std::nullopt;
  where.as_published = false;
  where.threads_per_rank = 1;
  where.data.clear();
  plan::forget_unknown(cell, plan::Prediction::Memory);
  cell.dtype = cell.param_dtype = "float32";
  cell.micro_batch_size = std::max(2, cell.micro_batch_size);  // BERT declares nothing for one
  return predict_memory(cell, where).memory;
}

// What of it is there between its steps: all but activations.
std::int64_t resident_bytes(const StepMemory& memory) {
  return memory.peak_bytes -
         measure::bytes_of(memory.peak_by_category, measure::MemoryCategory::Activation);
}

}  // namespace

std::optional<std::int64_t> estimated_peak_bytes(const plan::Cell& cell,
                                                 const launch::LaunchSpec& where) {
  const auto memory = estimate(cell, where);
  if (!memory) return std::nullopt;
  const bool has_budget = cell.memory_budget_bytes > 0;  // beyond which nothing is allocated
  return (has_budget ? std::min(memory->peak_bytes, cell.memory_budget_bytes)
                     : memory->peak_bytes) +
         kProcessBytes;
}

std::int64_t together_bytes(const std::vector<plan::Trial>& trials,
                            const launch::LaunchSpec& where) {
  std::vector<plan::Cell> workloads;
  std::int64_t resident = 0;
  std::int64_t most_in_use = 0;
  for (const plan::Trial& trial : trials) {
    const auto memory = estimate(trial.cell, where);
    if (!memory) continue;
    const std::int64_t stays = resident_bytes(*memory);
    most_in_use = std::max(most_in_use, memory->peak_bytes - stays);
    const auto same = [&](const plan::Cell& other) {
      return plan::share_a_workload(other, trial.cell);
    };
    if (std::ranges::any_of(workloads, same)) continue;
    workloads.push_back(trial.cell);
    resident += stays;
  }
  return resident + most_in_use + kProcessBytes;
}

}  // namespace gradsync::memory
