#include "harness/memory/memory_prediction.h"

#include <algorithm>

#include "harness/memory/ddp_memory.h"
#include "harness/memory/fsdp_memory.h"
#include "harness/paper/gpu_models.h"
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

// The same of a GPU alone.
std::string objection_of_gpu(const plan::Cell& cell, const launch::LaunchSpec& where) {
  if (where.on.empty()) {
    return "cuBLAS's memory depends on the GPU, which a plan names only for GPUs of paper";
  }
  if (where.backend != "nccl") return "memory of GPUs is predicted over NCCL only";
  if (!is_of_float32(cell)) return "memory of GPUs is predicted in float32 only";
  if (cell.offload != "none" || cell.activation_checkpointing > 0) {
    return "memory of offloading and recomputation is predicted on the CPU only";
  }
  return "";
}

// Returns why a cell's footprint would not be what its ranks hold; "": it is.
std::string objection(const plan::Cell& cell, const launch::LaunchSpec& where) {
  const bool is_on_cpu = where.device == "cpu";
  if (!is_on_cpu) {
    if (std::string why = objection_of_gpu(cell, where); !why.empty()) return why;
  }
  if (is_on_cpu && where.threads_per_rank > 1)
    return "memory is predicted for kernels of one thread only";
  if (where.as_published) return "windows of as_published differ, and the first one is cold";
  if (!where.data.empty()) return "examples of a file differ in length";
  if (cell.offload != "none" && !is_of_float32(cell)) {
    return "memory of offloading is predicted in float32 only";
  }
  if (cell.attention == "sdpa" && !is_of_float32(cell)) {
    return "memory of scaled_dot_product_attention is predicted in float32 only";
  }
  return plan::why_unknown(cell, plan::Prediction::Memory);
}

// `where` has GPUs.
paper::GpuModel gpu_of(const launch::LaunchSpec& where) {
  std::string wrong;  // it was read before
  return paper::parse_gpus(where.on, wrong).model;
}

DeviceMemory device_of(const plan::Cell& cell, const launch::LaunchSpec& where) {
  if (where.device == "cpu") return {};
  const paper::GpuModel gpu = gpu_of(where);
  DeviceMemory device = gpu_memory(gpu.major, gpu.minor);
  device.limit_bytes = static_cast<std::int64_t>(paper::Gpus{1, gpu}.memory_bytes());
  if (cell.memory_budget_bytes > 0) {
    device.limit_bytes = std::min(*device.limit_bytes, cell.memory_budget_bytes);
  }
  return device;
}

models::Kernels kernels_of(const launch::LaunchSpec& where) {
  if (where.device == "cpu") return {};
  const paper::GpuModel gpu = gpu_of(where);
  return {.are_gpus = true,
          .gpu = {gpu.multiprocessors, paper::limits_of(gpu).threads_per_multiprocessor}};
}

// Returns the bytes of each tensor that is held throughout: one byte that the barrier before a
// block leaves, and token ids and labels. A mask is made only for padding.
std::vector<std::int64_t> resident_bytes(const models::MicroBatchShape& shape) {
  constexpr std::int64_t kBarrierBytes = 1;
  std::vector<std::int64_t> bytes{kBarrierBytes};
  for (int i = 0; i < kPreparedBatches; ++i) {
    bytes.insert(bytes.end(),
                 {shape.tokens() * models::kLongBytes, shape.examples * models::kLongBytes});
  }
  return bytes;
}

models::UnitLevers levers_of(const plan::Cell& cell, const launch::LaunchSpec& where) {
  return {.checkpointed = checkpointed_units(cell),
          .frozen = static_cast<std::size_t>(cell.frozen_units),
          .lora = lora_updates(cell),
          .element_bytes = element_bytes(computed_dtype(cell)),
          .kernels = kernels_of(where)};
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
  memory.device = device_of(cell, where);
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
                                              .levers = levers_of(cell, where),
                                              .attention = attention_of(cell)});
  if (!declared.footprint) return {std::nullopt, declared.unknown_because};
  models::Footprint footprint = *declared.footprint;
  std::vector<std::int64_t> other = resident_bytes(shape);
  other.insert(other.end(), footprint.buffer_bytes.begin(), footprint.buffer_bytes.end());
  const auto syncs = plan::declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps);
  if (cell.wrapper == "ddp") {
    if (!cell.broadcast_buffers) footprint.buffer_bytes.clear();  // none goes into a message
    const DdpMemory memory{cell.gradient_as_bucket_view, cell.master_weights, offload_of(cell),
                           buckets_of(cell), device_of(cell, where)};
    return {ddp_step_memory(memory, footprint, syncs, other), ""};
  }
  return {fsdp_step_memory(fsdp_memory(cell, where), footprint, syncs, other), ""};
}

}  // namespace gradsync::memory
