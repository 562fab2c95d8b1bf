#include "harness/sync/backward.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "harness/measure/memory.h"

namespace gradsync::sync {

void LossWatch::note(const at::Tensor& loss) {
  const bool finite = !loss.is_cpu() || std::isfinite(loss.item<double>());
  if (!finite && !first_) first_ = count_;
  ++count_;
}

LossWatch& loss_watch() {
  static LossWatch watch;
  return watch;
}

void backward(at::Tensor loss, int divisor, measure::StepRecorder* recorder) {
  const measure::PhaseScope scope(recorder, measure::Phase::Backward);
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  measure::meter().set_phase("backward");
  loss_watch().note(loss);
  loss = loss / divisor;
  if (recorder != nullptr) {
    // The engine runs queued callbacks in order once the graph is done. The Reducer queues its own,
    // which waits for the buckets, with the last gradient; ours is queued with the first.
    loss.register_hook([recorder](const at::Tensor&) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [recorder] { recorder->enter(measure::Phase::Wait); });
    });
  }
  torch::autograd::backward({loss}, {});
  if (recorder != nullptr) recorder->enter(measure::Phase::Backward);
  loss.reset();
}

}  // namespace gradsync::sync
