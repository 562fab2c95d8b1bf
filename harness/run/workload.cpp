#include "harness/run/workload.h"

#include <numeric>

#include "harness/base/errors.h"
#include "harness/run/paced_optimizer.h"

namespace gradsync::run {
namespace {

// Distinct micro-batches made ready per rank; more only costs memory, since all have one shape.
constexpr int kPreparedBatches = 32;
// One epoch of the guide's script, whose lengths differ from batch to batch.
constexpr int kPreparedEpoch = 115;
// The guide's script: 100 warm-up steps of a three-epoch schedule.
constexpr int kWarmupSchedulerSteps = 100;
constexpr int kTotalSchedulerSteps = 1'000'000;

models::ModelOptions model_options(const RankContext& context, const plan::Cell& cell) {
  models::ModelOptions options;
  options.device = at::Device(context.spec.device);
  options.seed = context.spec.seed;
  options.scale = cell.scale;
  options.weights = context.spec.weights;
  options.clock = &context.clock;
  return options;
}

models::DataOptions data_options(const RankContext& context, const plan::Cell& cell,
                                 const models::Model& model) {
  models::DataOptions options;
  options.rank = context.rank;
  options.world_size = context.world_size;
  options.micro_batch_size = cell.micro_batch_size;
  options.sequence_length = cell.sequence_length;
  options.varying_lengths = cell.lengths == "mrpc";
  if (model.vocabulary_size() > 0) options.vocabulary_size = model.vocabulary_size();
  options.seed = context.spec.seed;
  options.file = context.spec.data;
  options.device = at::Device(context.spec.device);
  return options;
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
  options.recorder = &context.recorder;
  return options;
}

}  // namespace

Workload::Workload(const RankContext& context, const plan::Cell& cell) : cell_(cell) {
  auto module = models::find_model(cell.model).make(model_options(context, cell));
  const double paced_optimizer_s = module->paced_optimizer_s();
  data_ = std::make_unique<models::DataLoader>(
      data_options(context, cell, *module),
      cell.lengths == "mrpc" ? kPreparedEpoch : kPreparedBatches);
  model_ = std::make_unique<sync::DistributedDataParallel>(std::move(module), context.group,
                                                           ddp_options(context, cell));
  if (paced()) {
    optimizer_ =
        std::make_unique<PacedOptimizer>(model_->parameters(), paced_optimizer_s, context.clock);
  } else {
    optimizer_ = std::make_unique<sync::FusedAdamW>(model_->parameters(), sync::AdamWOptions{});
  }
  scheduler_ = std::make_unique<sync::LinearWarmup>(*optimizer_, kWarmupSchedulerSteps,
                                                    kTotalSchedulerSteps);
}

bool Workload::serves(const plan::Cell& cell) const {
  plan::Cell same = cell;
  same.strategy = cell_.strategy;
  same.accumulation_steps = cell_.accumulation_steps;
  return same == cell_;
}

void Workload::rebuild_buckets(const RankContext& context) {
  // The first synchronized backward shows the order of gradients; the next forward rebuilds.
  constexpr int kSteps = 2;
  const auto baseline = sync::find_strategy("baseline").make();
  sync::Training training = this->training(context);
  context.recorder.begin_block();
  for (int step = 0; step < kSteps; ++step) {
    training.step = -1;
    baseline->step(training, 1);
    context.recorder.end_step();
  }
}

sync::Training Workload::training(const RankContext& context) {
  return {*model_,          *optimizer_,    *scheduler_,       *data_,
          context.recorder, context.ledger, context.world_size};
}

Declared Workload::declared() const {
  Declared declared;
  declared.bucket_bytes = model_->bucket_bytes();
  if (model_->broadcasts_buffers()) {
    declared.buffer_broadcasts = model_->buffer_broadcasts();
    declared.buffer_bytes = model_->buffer_bytes();
  }
  if (cell_.find_unused_parameters && !cell_.static_graph) {
    // The Reducer's map of locally used parameters, int32 per parameter.
    declared.unused_map_bytes =
        static_cast<std::int64_t>(model_->parameters().size() * sizeof(std::int32_t));
  }
  return declared;
}

nlohmann::json Workload::info() const {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : model_->parameters()) {
    elements += parameter.numel();
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  nlohmann::json info{{"parameters", elements},
                      {"gradient_bytes", bytes},
                      {"tensors", model_->parameters().size()},
                      {"bucket_bytes", model_->bucket_bytes()},
                      {"scale", cell_.scale},
                      {"paced", model_->module().compute() == models::Compute::Paced}};
  const auto& fresh = model_->module().freshly_initialised();
  if (!fresh.empty()) info["freshly_initialised"] = fresh;
  return info;
}

}  // namespace gradsync::run
