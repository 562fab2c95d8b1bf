#include "harness/memory/memory_prediction.h"

#include <numeric>

#include "harness/memory/ddp_memory.h"
#include "harness/memory/fsdp_memory.h"
#include "harness/plan/known_options.h"
#include "harness/plan/strategies.h"
#include "models/suite.h"

namespace gradsync::memory {
namespace {

bool is_of_float32(const plan::Cell& cell) {
  for (const std::string& dtype : {cell.dtype, cell.param_dtype, cell.reduce_dtype}) {
    if (element_bytes(dtype) != static_cast<int>(models::kFloatBytes)) return false;
  }
  return true;
}

// Returns why a cell's footprint would not be what its ranks hold; "": it is.
std::string objection(const plan::Cell& cell, const launch::LaunchSpec& where) {
  if (where.device != "cpu") return "declared is what the CPU's kernels hold";
  if (where.threads_per_rank > 1) return "declared is what kernels of one thread hold";
  if (where.as_published) return "windows of as_published are not alike, and the first one is cold";
  if (!where.data.empty()) return "examples of a file differ in length";
  if (cell.offload != "none" && !is_of_float32(cell)) {
    return "what is offloaded is declared in float32 alone";
  }
  if (cell.attention == "sdpa" && !is_of_float32(cell)) {
    return "what scaled_dot_product_attention holds is declared in float32 alone";
  }
  return plan::why_unknown(cell, plan::Prediction::Memory);
}

// The barrier before a block leaves a tensor of one byte, held throughout. Of token ids and labels:
// a mask is made only for padding.
std::int64_t resident_bytes(const models::MicroBatchShape& shape) {
  constexpr std::int64_t kBarrierBytes = 1;
  return kBarrierBytes + kPreparedBatches * (shape.tokens() + shape.examples) * models::kLongBytes;
}

models::UnitLevers levers_of(const plan::Cell& cell) {
  return {.checkpointed = checkpointed_units(cell),
          .frozen = static_cast<std::size_t>(cell.frozen_units),
          .lora = lora_updates(cell),
          .element_bytes = element_bytes(computed_dtype(cell))};
}

models::AttentionImplementation attention_of(const plan::Cell& cell) {
  return cell.attention == "sdpa" ? models::AttentionImplementation::Sdpa
                                  : models::AttentionImplementation::Eager;
}

Offload offload_of(const plan::Cell& cell) {
  if (cell.offload == "none") return Offload::None;
  return cell.offload == "parameters" ? Offload::Parameters : Offload::OptimizerState;
}

FsdpMemory fsdp_memory(const plan::Cell& cell, const launch::LaunchSpec& where) {
  FsdpMemory memory;
  memory.ranks = cell.hybrid_shard ? where.topology.ranks_per_node : where.topology.world_size();
  memory.backend_copies_gathers = where.backend == "gloo";
  memory.backend_copies_reductions = where.backend == "gloo";
  memory.stored_bytes = element_bytes(cell.dtype);
  memory.param_bytes = element_bytes(cell.param_dtype);
  memory.reduce_bytes = element_bytes(cell.reduce_dtype);
  memory.gradient_bytes =
      cell.gradient_dtype == "reduce" ? memory.reduce_bytes : memory.param_bytes;
  memory.reshard_after_forward = cell.reshard_after_forward;
  memory.reshard_after_backward = cell.reshard_after_backward;
  memory.prefetch = cell.prefetch;
  memory.optimizer_in_backward = cell.optimizer_in_backward;
  memory.offload = offload_of(cell);
  return memory;
}

}  // namespace

models::LoraUpdates lora_updates(const plan::Cell& cell) {
  return {.rank = cell.lora_rank, .modules = models::lora_modules(cell.lora_modules)};
}

models::CheckpointedUnits checkpointed_units(const plan::Cell& cell) {
  return {.every = cell.activation_checkpointing,
          .kept = models::kept_outputs(cell.selective_checkpointing)};
}

int element_bytes(const std::string& dtype) {
  constexpr int kFloat32Bytes = 4;
  constexpr int kBfloat16Bytes = 2;
  return dtype == "bfloat16" ? kBfloat16Bytes : kFloat32Bytes;
}

const std::string& computed_dtype(const plan::Cell& cell) {
  return cell.wrapper == "fsdp" ? cell.param_dtype : cell.dtype;
}

MemoryPrediction predict_memory(const plan::Cell& cell, const launch::LaunchSpec& where) {
  if (std::string why = objection(cell, where); !why.empty()) return {std::nullopt, why};
  const models::MicroBatchShape shape{cell.micro_batch_size, cell.sequence_length};
  const auto declared =
      models::declared_footprint(cell.model, {.shape = shape,
                                              .scale = cell.scale,
                                              .balanced_routing = cell.balanced_routing,
                                              .levers = levers_of(cell),
                                              .attention = attention_of(cell)});
  if (!declared.footprint) return {std::nullopt, declared.unknown_because};
  models::Footprint footprint = *declared.footprint;
  const std::int64_t other = std::accumulate(footprint.buffer_bytes.begin(),
                                             footprint.buffer_bytes.end(), resident_bytes(shape));
  const auto syncs = plan::declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps);
  if (cell.wrapper == "ddp") {
    if (!cell.broadcast_buffers) footprint.buffer_bytes.clear();  // none goes into a message
    const DdpMemory memory{cell.gradient_as_bucket_view, cell.master_weights, offload_of(cell)};
    return {ddp_step_memory(memory, footprint, syncs, other), ""};
  }
  return {fsdp_step_memory(fsdp_memory(cell, where), footprint, syncs, other), ""};
}

}  // namespace gradsync::memory
