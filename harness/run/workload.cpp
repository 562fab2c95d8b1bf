#include "harness/run/workload.h"

#include <numeric>

#include "harness/base/clock.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/memory/memory_prediction.h"
#include "harness/plan/cell.h"
#include "harness/sync/adamw.h"
#include "harness/sync/backward.h"
#include "harness/sync/by_hand.h"
#include "harness/sync/ddp.h"
#include "harness/sync/fsdp/fsdp.h"
#include "harness/sync/host_optimizer.h"
#include "harness/sync/pipeline.h"
#include "models/frozen_units.h"
#include "models/pace.h"

namespace gradsync::run {
namespace {

// One epoch of the guide's script, whose lengths differ from batch to batch.
constexpr int kPreparedEpoch = 115;
// The guide's script: 100 warm-up steps of a three-epoch schedule.
constexpr int kWarmupSchedulerSteps = 100;
constexpr int kTotalSchedulerSteps = 1'000'000;

// The optimizer of a paced model: it takes the time of the machine re-enacted and does no
// arithmetic, since a scaled model's arithmetic would take neither machine's time.
class PacedOptimizer final : public sync::Optimizer {
 public:
  PacedOptimizer(std::vector<at::Tensor> parameters, double step_s,
                 std::shared_ptr<const models::Pace> pace)
      : Optimizer(std::move(parameters)), step_s_(step_s), pace_(std::move(pace)) {}

  void step() override {
    if (step_s_ > 0) pace_->begin()->await(nanoseconds(step_s_));
  }
  double lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }

 private:
  double step_s_;
  double lr_ = 0;
  std::shared_ptr<const models::Pace> pace_;
};

at::ScalarType dtype_named(const std::string& name) {
  return name == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

// Folded, values mean nothing: none are made, and no router may choose by them. FSDP gives a model
// its memory unit by unit, so that not all of it exists at once.
models::ModelOptions model_options(const RankContext& context, const plan::Cell& cell) {
  models::ModelOptions options;
  options.device = at::Device(context.spec.device);
  options.seed = context.spec.seed;
  options.scale = cell.scale;
  options.weights = context.spec.weights;
  options.pace = context.pace;
  options.lora = memory::lora_updates(cell);
  if (cell.attention == "sdpa") options.attention = models::AttentionImplementation::Sdpa;
  options.dtype = dtype_named(cell.dtype);
  const bool folded = context.spec.fold_from_bytes > 0;
  options.uninitialised = folded;
  options.balanced_routing = folded || cell.balanced_routing;
  options.without_memory = folded && cell.wrapper == "fsdp";
  return options;
}

models::DataOptions data_options(const RankContext& context, const plan::Cell& cell,
                                 const models::Model& model) {
  models::DataOptions options;
  // The stages of a pipeline work on the same micro-batches.
  const bool shares = cell.wrapper != "pipeline";
  options.rank = shares ? context.rank : 0;
  options.world_size = shares ? context.world_size : 1;
  options.micro_batch_size = cell.micro_batch_size;
  options.sequence_length = cell.sequence_length;
  options.varying_lengths = cell.lengths == "mrpc";
  options.pictures = model.reads_pictures();
  options.class_skew = cell.class_skew;
  if (model.vocabulary_size() > 0) options.vocabulary_size = model.vocabulary_size();
  options.seed = context.spec.seed;
  options.file = context.spec.data;
  options.device = at::Device(context.spec.device);
  return options;
}

std::optional<at::ScalarType> compress_to(const std::string& compression) {
  if (compression == "none") return std::nullopt;
  return compression == "fp16" ? at::kHalf : at::kBFloat16;
}

// A scaled model has the caps scaled with it, so that it has the same buckets.
sync::DdpOptions ddp_options(const RankContext& context, const plan::Cell& cell) {
  sync::DdpOptions options;
  if (cell.bucket_cap_bytes > 0) {
    options.bucket_cap_bytes = cell.bucket_cap_bytes;
    options.first_bucket_bytes = cell.bucket_cap_bytes;
  }
  options.bucket_cap_bytes = std::max<std::int64_t>(1, options.bucket_cap_bytes / cell.scale);
  options.first_bucket_bytes = std::max<std::int64_t>(1, options.first_bucket_bytes / cell.scale);
  options.find_unused_parameters = cell.find_unused_parameters;
  options.static_graph = cell.static_graph;
  options.gradient_as_bucket_view = cell.gradient_as_bucket_view;
  options.compress_to = compress_to(cell.compression);
  if (cell.autocast != "none") options.autocast_to = dtype_named(cell.autocast);
  options.broadcast_buffers = cell.broadcast_buffers;
  options.sync_batch_norm = cell.sync_batch_norm;
  options.recorder = &context.recorder;
  return options;
}

sync::FsdpOptions fsdp_options(const RankContext& context, const plan::Cell& cell) {
  sync::FsdpOptions options;
  options.reshard_after_forward = cell.reshard_after_forward;
  options.reshard_after_backward = cell.reshard_after_backward;
  options.param_dtype = dtype_named(cell.param_dtype);
  options.reduce_dtype = dtype_named(cell.reduce_dtype);
  options.accumulate_in_reduce_dtype = cell.gradient_dtype == "reduce";
  options.prefetch = cell.prefetch;
  options.offload_parameters = cell.offload == "parameters";
  options.recorder = &context.recorder;
  return options;
}

sync::Reduction reduction_of(const std::string& wrapper) {
  if (wrapper == "local") return sync::Reduction::None;
  return wrapper == "by_hand" ? sync::Reduction::PerParameter : sync::Reduction::Coalesced;
}

std::unique_ptr<sync::Wrapper> wrapped(const RankContext& context, const plan::Cell& cell,
                                       std::shared_ptr<models::Model> module) {
  if (cell.wrapper == "fsdp") {
    return std::make_unique<sync::FullyShardedDataParallel>(
        std::move(module),
        cell.hybrid_shard ? context.hybrid : sync::FsdpGroups{context.group, nullptr},
        fsdp_options(context, cell));
  }
  if (cell.wrapper == "pipeline") {
    return std::make_unique<sync::PipelineStage>(std::move(module), context.group,
                                                 &context.recorder);
  }
  if (cell.wrapper != "ddp") {
    return std::make_unique<sync::ByHand>(std::move(module), context.group,
                                          reduction_of(cell.wrapper), &context.recorder);
  }
  return std::make_unique<sync::DistributedDataParallel>(std::move(module), context.group,
                                                         ddp_options(context, cell));
}

std::unique_ptr<sync::Optimizer> adamw(const RankContext& context, const plan::Cell& cell,
                                       std::vector<at::Tensor> parameters) {
  if (!cell.fused_optimizer) {
    return std::make_unique<sync::PerParameterAdamW>(std::move(parameters), sync::AdamWOptions{});
  }
  if (cell.master_weights) {
    return std::make_unique<sync::MasterWeightAdamW>(std::move(parameters), sync::AdamWOptions{},
                                                     &context.recorder);
  }
  return std::make_unique<sync::FusedAdamW>(std::move(parameters), sync::AdamWOptions{});
}

// A paced model's optimizer takes the time that its profile says.
std::unique_ptr<sync::Optimizer> make_optimizer(const RankContext& context, const plan::Cell& cell,
                                                sync::Wrapper& model) {
  if (model.module().compute() == models::Compute::Paced) {
    return std::make_unique<PacedOptimizer>(model.parameters(), model.module().paced_optimizer_s(),
                                            context.pace);
  }
  const auto make = [&](std::vector<at::Tensor> parameters) {
    return adamw(context, cell, std::move(parameters));
  };
  if (cell.offload == "none") return make(model.parameters());
  if (cell.offload == "parameters") {
    return std::make_unique<sync::HostOptimizer>(model.parameters(), make);
  }
  return std::make_unique<sync::OffloadedOptimizer>(model.parameters(),
                                                    sync::HostCopies(&context.recorder), make);
}

}  // namespace

Workload::Workload(const RankContext& context, const plan::Cell& cell) : cell_(cell) {
  auto module = models::find_model(cell.model).make(model_options(context, cell));
  data_ = std::make_unique<models::DataLoader>(
      data_options(context, cell, *module),
      cell.lengths == "mrpc" ? kPreparedEpoch : memory::kPreparedBatches);
  models::freeze_units(*module, cell.frozen_units);
  module->set_recomputation(
      sync::recomputation_of(*module, memory::checkpointed_units(cell), &context.recorder));
  model_ = wrapped(context, cell, std::move(module));
  optimizer_ = make_optimizer(context, cell, *model_);
  if (cell.optimizer_in_backward) {
    model_->step_in_backward([&optimizer = *optimizer_] {
      optimizer.step();
      optimizer.zero_grad();
    });
  }
  scheduler_ = std::make_unique<sync::LinearWarmup>(*optimizer_, kWarmupSchedulerSteps,
                                                    kTotalSchedulerSteps);
}

bool Workload::serves(const plan::Cell& cell) const {
  return plan::share_a_workload(cell, cell_);
}

void Workload::reach_steady_state(const RankContext& context) {
  // DDP: the first synchronized backward shows the order of gradients, the next forward rebuilds.
  const int steps = cell_.wrapper == "ddp" ? 2 : 1;
  const auto baseline = sync::make_strategy("baseline");
  sync::Training training = this->training(context);
  context.recorder.begin_block();
  std::int64_t held_after_first = 0;
  for (int step = 0; step < steps; ++step) {
    training.step = -1;
    baseline->step(training, 1);
    context.recorder.end_step();
    if (step == 0) held_after_first = measure::meter().allocated_bytes();
  }
  comm::await_release(held_after_first);  // the buckets before the rebuild
  context.recorder.end_block();
}

sync::Training Workload::training(const RankContext& context) {
  return {*model_,          *optimizer_,    *scheduler_,       *data_,
          context.recorder, context.ledger, context.world_size};
}

results::ModelInfo Workload::info() const {
  // The model's own tensors have their whole shapes, also where a rank holds only shards.
  const auto parameters = model_->module().parameters();
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters) elements += parameter.numel();
  const auto reductions = model_->reduction_bytes();
  results::ModelInfo info;
  info.parameters = elements;
  info.gradient_bytes = std::accumulate(reductions.begin(), reductions.end(), std::int64_t{0});
  info.tensors = static_cast<std::int64_t>(parameters.size());
  info.bucket_bytes = reductions;
  info.scale = cell_.scale;
  info.paced = model_->module().compute() == models::Compute::Paced;
  info.freshly_initialised = model_->module().freshly_initialised();
  if (!parameters.front().is_cpu()) info.host_reads_back = model_->module().reads_back();
  return info;
}

}  // namespace gradsync::run
