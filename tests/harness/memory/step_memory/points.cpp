#include "tests/harness/memory/step_memory/points.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>

#include "harness/memory/ddp_memory.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/host_optimizer.h"
#include "harness/sync/strategies/strategy.h"
#include "models/frozen_units.h"

namespace gradsync::test {

using measure::MemoryCategory;
using memory::Offload;
using memory::StepMemory;
using models::Footprint;
using models::MicroBatchShape;
using models::UnitLevers;
using sync::FsdpOptions;

namespace {

const std::vector<MicroBatchShape> kShapes{{2, 5}, {3, 33}};

models::Batch batch_of(const MicroBatchShape& shape) {
  models::Batch batch;
  batch.input_ids =
      at::arange(shape.tokens(), at::kLong).remainder(200).reshape({shape.examples, shape.length});
  batch.labels = at::zeros({shape.examples}, at::kLong);
  return batch;
}

std::int64_t batch_bytes(const MicroBatchShape& shape) {
  return (shape.tokens() + shape.examples) * models::kLongBytes;
}

std::int64_t other_bytes(const Footprint& footprint, const MicroBatchShape& shape) {
  std::int64_t bytes = batch_bytes(shape);
  for (const std::int64_t buffer : footprint.buffer_bytes) bytes += buffer;
  return bytes;
}

void run_step(sync::Wrapper& model, sync::Optimizer* optimizer, const models::Batch& batch,
              const std::vector<bool>& syncs) {
  for (const bool sync : syncs) {
    std::optional<sync::NoSyncGuard> guard;
    if (!sync) guard.emplace(model);
    sync::backward(model.forward(batch), static_cast<int>(syncs.size()), nullptr);
  }
  if (optimizer != nullptr) optimizer->step();
  for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
}

// Waits until the last thread of gloo has freed the tensors that DDP compared and reduced first; a
// step of microseconds may be too short for that. `other`: bytes that stay, beside buckets.
void await_gloos_threads(const sync::Wrapper& model, std::int64_t other) {
  std::int64_t stays = other;
  for (const std::int64_t bytes : model.reduction_bytes()) stays += bytes;
  const auto held = [] {
    const auto bytes = measure::meter().allocated_by_category();
    return measure::bytes_of(bytes, MemoryCategory::Communication) +
           measure::bytes_of(bytes, MemoryCategory::Other);
  };
  constexpr int kPatience = 5000;
  for (int i = 0; i < kPatience && held() > stays; ++i) usleep(1000);
}

void store_in_bfloat16(models::Model& model) {
  for (at::Tensor& parameter : model.parameters()) {
    parameter.set_data(parameter.detach().to(at::kBFloat16));
  }
}

std::unique_ptr<sync::Optimizer> optimizer_of(sync::Wrapper& model, const Point& point) {
  if (model.module().compute() != models::Compute::Real) return nullptr;
  const std::vector<at::Tensor> parameters = model.parameters();
  if (point.master_weights) {
    return std::make_unique<sync::MasterWeightAdamW>(parameters, sync::AdamWOptions{});
  }
  const auto make = [](std::vector<at::Tensor> those) {
    return std::make_unique<sync::FusedAdamW>(std::move(those), sync::AdamWOptions{});
  };
  if (point.offload == Offload::None) return make(parameters);
  if (point.offload == Offload::Parameters) {
    return std::make_unique<sync::HostOptimizer>(parameters, make);
  }
  return std::make_unique<sync::OffloadedOptimizer>(parameters, sync::HostCopies(nullptr), make);
}

// What a steady step holds, by the meter, in an account of its own.
StepMemory measured(
    const Subject& subject, const Point& point,
    const std::function<std::unique_ptr<sync::Wrapper>(std::shared_ptr<models::Model>)>& wrap) {
  measure::MemoryMeter& meter = measure::meter();
  static int account = 0;
  meter.switch_account(++account);
  const auto batch = batch_of(point.shape);
  const auto module = subject.make(point.levers);
  if (point.levers.element_bytes == 2) store_in_bfloat16(*module);
  models::freeze_units(*module, static_cast<int>(point.levers.frozen));
  module->set_recomputation(sync::recomputation_of(*module, point.levers.checkpointed, nullptr));
  const auto model = wrap(module);
  const auto optimizer = optimizer_of(*model, point);
  if (point.optimizer_in_backward) {
    model->step_in_backward([&] {
      optimizer->step();
      optimizer->zero_grad();
    });
  }
  for (int step = 0; step < 2; ++step) run_step(*model, optimizer.get(), batch, {true});
  await_gloos_threads(*model, other_bytes(subject.footprint(point.shape, {}), point.shape));
  meter.reset_peak();
  run_step(*model, optimizer.get(), batch, point.syncs);
  StepMemory memory;
  memory.peak_bytes = meter.peak_bytes();
  memory.peak_by_category = meter.peak_by_category();
  memory.highest_by_category = meter.highest_by_category();
  memory.host_peak_bytes = meter.host().peak_bytes;
  memory.host_peak_by_category = meter.host().peak;
  return memory;
}

std::string table(const measure::CategoryBytes& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format(" {} {}", measure::kMemoryCategoryNames[i], bytes[i]);
  }
  return text;
}

void expect_same(const StepMemory& seen, const StepMemory& predicted, const std::string& what) {
  EXPECT_EQ(seen.peak_bytes, predicted.peak_bytes) << what;
  EXPECT_EQ(table(seen.peak_by_category), table(predicted.peak_by_category)) << what;
  EXPECT_EQ(table(seen.highest_by_category), table(predicted.highest_by_category)) << what;
  EXPECT_EQ(seen.host_peak_bytes, predicted.host_peak_bytes) << what;
  EXPECT_EQ(table(seen.host_peak_by_category), table(predicted.host_peak_by_category)) << what;
}

}  // namespace

std::string Point::words() const {
  return fmt::format(
      "{} x {}, syncs {}, every {} checkpointed, {} frozen, updates {} of rank {}, {} bytes an "
      "element, steps in backward {}, master weights {}, offload {}",
      shape.examples, shape.length, fmt::join(syncs, " "), levers.checkpointed.every, levers.frozen,
      static_cast<int>(levers.lora.modules), levers.lora.rank, levers.element_bytes,
      optimizer_in_backward, master_weights, static_cast<int>(offload));
}

std::vector<std::vector<bool>> policies() {
  return {{true}, {false, true}, {true, true}, {false, false, true}, {true, true, true}};
}

Point point_of(int number, const UnitLevers& levers) {
  const auto at = static_cast<std::size_t>(number);
  return {kShapes[at / 4 % kShapes.size()], policies()[at % policies().size()], levers};
}

FsdpOptions options_of(int bits) {
  FsdpOptions options;
  options.reshard_after_forward = (bits & 1) == 0;
  options.reshard_after_backward = (bits & 2) == 0;
  options.prefetch = (bits & 4) == 0;
  options.reduce_dtype = (bits & 8) == 0 ? at::kFloat : at::kBFloat16;
  options.accumulate_in_reduce_dtype = (bits & 16) == 0;
  options.param_dtype = (bits & 32) == 0 ? at::kFloat : at::kBFloat16;
  return options;
}

memory::FsdpMemory memory_of(const FsdpOptions& options, c10d::ProcessGroup& shard) {
  memory::FsdpMemory memory;
  memory.ranks = shard.getSize();
  memory.backend_copies_gathers = shard.getBackend(at::kCPU)->getBackendName().ends_with("gloo");
  memory.backend_copies_reductions = memory.backend_copies_gathers;
  memory.param_bytes = static_cast<int>(c10::elementSize(options.param_dtype));
  memory.reduce_bytes = static_cast<int>(c10::elementSize(options.reduce_dtype));
  memory.gradient_bytes =
      options.accumulate_in_reduce_dtype ? memory.reduce_bytes : memory.param_bytes;
  memory.reshard_after_forward = options.reshard_after_forward;
  memory.reshard_after_backward = options.reshard_after_backward;
  memory.prefetch = options.prefetch;
  return memory;
}

void expect_fsdp_as_predicted(const sync::FsdpGroups& groups, const Subject& subject, int bits,
                              const Point& point) {
  FsdpOptions options = options_of(bits);
  options.offload_parameters = point.offload == Offload::Parameters;
  UnitLevers levers = point.levers;
  levers.element_bytes = static_cast<std::int64_t>(c10::elementSize(options.param_dtype));
  const Footprint footprint = subject.footprint(point.shape, levers);
  const auto wrap = [&](std::shared_ptr<models::Model> model) {
    return std::make_unique<sync::FullyShardedDataParallel>(std::move(model), groups, options);
  };
  const int ranks = groups.shard->getSize();
  memory::FsdpMemory memory = memory_of(options, *groups.shard);
  memory.optimizer_in_backward = point.optimizer_in_backward;
  memory.offload = point.offload;
  const int nodes = groups.replicate ? groups.replicate->getSize() : 1;
  expect_same(
      measured(subject, point, wrap),
      fsdp_step_memory(memory, footprint, point.syncs, {other_bytes(footprint, point.shape)}),
      fmt::format("{} of {}, shared by {} ranks on each of {} nodes, options {}", subject.name,
                  point.words(), ranks, nodes, bits));
}

void expect_ddp_as_predicted(RankHarness& rank, const Subject& subject, bool view,
                             const Point& point, bool broadcast_buffers) {
  Footprint footprint = subject.footprint(point.shape, point.levers);
  const std::int64_t other = other_bytes(footprint, point.shape);
  if (!broadcast_buffers) footprint.buffer_bytes.clear();
  sync::DdpOptions options;
  options.gradient_as_bucket_view = view;
  options.broadcast_buffers = broadcast_buffers;
  const auto wrap = [&](std::shared_ptr<models::Model> model) {
    return std::make_unique<sync::DistributedDataParallel>(std::move(model), rank.group, options);
  };
  expect_same(measured(subject, point, wrap),
              memory::ddp_step_memory({view, point.master_weights, point.offload}, footprint,
                                      point.syncs, {other}),
              fmt::format("{} of {} on {} ranks, view {}, buffers broadcast {}", subject.name,
                          point.words(), rank.world_size, view, broadcast_buffers));
}

}  // namespace gradsync::test
