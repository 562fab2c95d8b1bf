#include "harness/sync/accelerator.h"

#include <fmt/format.h>

#include <utility>

#include "harness/base/errors.h"
#include "harness/sync/backward.h"
#include "harness/sync/wrapper.h"

namespace gradsync::sync {

Accelerator::Accelerator(const GradientAccumulationPlugin& plugin, int world_size)
    : plugin_(plugin), world_size_(world_size) {
  if (plugin.num_steps < 1) {
    throw ConfigError(fmt::format(
        "GradientAccumulationPlugin: num_steps: got {}, expected at least 1", plugin.num_steps));
  }
}

bool Accelerator::end_of_dataloader() const {
  return epoch_ != nullptr && epoch_->at_end();
}

Accelerator::Window Accelerator::accumulate(const std::vector<Wrapper*>& models) {
  const bool last_of_data = plugin_.sync_with_dataloader && end_of_dataloader();
  sync_gradients_ = sync_due(++micro_batch_, plugin_.num_steps, last_of_data);
  if (last_of_data) micro_batch_ = 0;
  Window window;
  if (!sync_gradients_ && !plugin_.sync_each_batch) {
    for (Wrapper* model : models) window.guards_.emplace_back(*model);
  }
  return window;
}

void Accelerator::backward(at::Tensor loss, measure::StepRecorder* recorder) {
  sync::backward(std::move(loss), plugin_.num_steps, recorder);
}

Epoch::Epoch(Accelerator& accelerator, std::int64_t micro_batches)
    : accelerator_(accelerator), outer_(accelerator.epoch_), micro_batches_(micro_batches) {
  accelerator.epoch_ = this;
}

Epoch::~Epoch() {
  accelerator_.epoch_ = outer_;
}

bool Epoch::next() {
  if (begun_ <= micro_batches_) ++begun_;
  return begun_ <= micro_batches_;
}

void PreparedOptimizer::step() {
  if (accelerator_.sync_gradients()) optimizer_.step();
}

void PreparedOptimizer::zero_grad() {
  if (accelerator_.sync_gradients()) optimizer_.zero_grad();
}

void PreparedScheduler::step() {
  if (!options_.step_with_optimizer) {
    scheduler_.step();
    return;
  }
  if (!accelerator_.sync_gradients()) {
    if (accelerator_.plugin().adjust_scheduler) scheduler_.count_step();
    return;
  }
  const int times = options_.split_batches ? 1 : accelerator_.world_size();
  for (int i = 0; i < times; ++i) scheduler_.step();
}

}  // namespace gradsync::sync
