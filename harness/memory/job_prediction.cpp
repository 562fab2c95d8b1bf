#include "harness/memory/job_prediction.h"

#include <fmt/format.h>

#include "harness/memory/jobs/job_memory.h"
#include "harness/plan/strategies.h"

namespace gradsync::memory {
namespace {

// Why the profile does not say what such a job holds; "": it does.
std::string objection(const models::MemoryProfile& profile, const plan::Cell& cell) {
  const bool is_sharded = cell.wrapper == "fsdp";
  if (!is_sharded && cell.wrapper != "ddp" && cell.wrapper != "local") {
    return "what wrapper " + cell.wrapper + " holds is not declared";
  }
  const std::string& computed = computed_dtype(cell);
  if (computed != profile.dtype) {
    return fmt::format("the profile was recorded in {}, and what kernels hold in {} is not known",
                       profile.dtype, computed);
  }
  if (cell.find_unused_parameters || cell.static_graph) {
    return "what find_unused_parameters and static_graph hold is not declared";
  }
  if (cell.compression != "none") return "what compression holds is not declared";
  if (cell.autocast != "none") {
    return "a profile holds what was recorded: record the model under its autocast";
  }
  if (cell.master_weights) return "what master weights hold is not declared of a job";
  if (!cell.fused_optimizer) return "declared is what the fused optimizer holds";
  if (cell.activation_checkpointing != 0) {
    return "a profile holds what was recorded: record the model with its activation checkpointing";
  }
  if (cell.frozen_units != 0) {
    return "a profile holds what was recorded: record the model with what it freezes";
  }
  if (cell.lora_rank != 0) {
    return "a profile holds what was recorded: record the model with its low-rank updates";
  }
  if (cell.optimizer_in_backward) return "what an optimizer in backward holds is not declared";
  if (cell.attention != plan::Cell{}.attention) {
    return "a profile holds what was recorded: record the model with its attention";
  }
  if (cell.offload != "none") return "what a job that offloads holds is not declared";
  if (cell.scale != 1) return "a recorded model is not scaled";
  if (cell.hybrid_shard) return "what hybrid_shard holds is not declared";
  if (!cell.prefetch) return "fully_shard gathers ahead in backward";
  return "";
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
                     .element_bytes = element_bytes(cell.dtype)};
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
