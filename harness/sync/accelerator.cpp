#include "harness/sync/accelerator.h"

#include <utility>

#include "harness/sync/backward.h"
#include "harness/sync/sync_due.h"

namespace gradsync::sync {

Accelerator::Window Accelerator::accumulate(const std::vector<Wrapper*>& models) {
  const bool last_of_data = plugin_.sync_with_dataloader && end_of_dataloader_;
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

void PreparedOptimizer::step() {
  if (accelerator_.sync_gradients()) optimizer_.step();
}

void PreparedOptimizer::zero_grad() {
  if (accelerator_.sync_gradients()) optimizer_.zero_grad();
}

void PreparedScheduler::step() {
  if (!accelerator_.sync_gradients()) {
    if (accelerator_.plugin().adjust_scheduler) scheduler_.count_step();
    return;
  }
  const int times = split_batches_ ? 1 : accelerator_.world_size();
  for (int i = 0; i < times; ++i) scheduler_.step();
}

}  // namespace gradsync::sync
