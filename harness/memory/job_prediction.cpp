#include <fmt/format.h>

#include "harness/memory/jobs/job_memory.h"
#include "harness/memory/memory_prediction.h"
#include "harness/plan/known_options.h"
#include "harness/plan/strategies.h"

namespace gradsync::memory {
namespace {

// Why the profile does not say what such a job holds; "": it does.
std::string objection(const models::MemoryProfile& profile, const plan::Cell& cell) {
  const std::string& computed = computed_dtype(cell);
  if (computed != profile.dtype) {
    return fmt::format("the profile was recorded in {}, and what kernels hold in {} is not known",
                       profile.dtype, computed);
  }
  return plan::why_unknown(cell, plan::Prediction::JobMemory);
}

}  // namespace

MemoryPrediction predict_job_memory(const models::MemoryProfile& profile, const plan::Cell& cell,
                                    const std::vector<std::size_t>& units, int ranks,
                                    const std::string& backend) {
  if (std::string why = objection(profile, cell); !why.empty()) return {std::nullopt, why};
  const auto syncs = plan::declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps);
  if (cell.wrapper != "fsdp") {
    const DdpJob job{.has_reducer = cell.wrapper == "ddp",
                     .gradient_as_bucket_view = cell.gradient_as_bucket_view,
                     .broadcast_buffers = cell.broadcast_buffers,
                     .element_bytes = element_bytes(cell.dtype),
                     .buckets = buckets_of(cell)};
    return {ddp_job_memory(job, profile, syncs), ""};
  }
  const FullyShardJob job{.ranks = ranks,
                          .stored_bytes = element_bytes(cell.dtype),
                          .param_bytes = element_bytes(cell.param_dtype),
                          .reduce_bytes = element_bytes(cell.reduce_dtype),
                          .reshard_after_forward = cell.reshard_after_forward,
                          .reshard_after_backward = cell.reshard_after_backward,
                          .backend_copies = backend == "gloo",
                          .units = units};
  return {fully_shard_job_memory(job, profile, syncs), ""};
}

}  // namespace gradsync::memory
