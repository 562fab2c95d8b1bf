#include "harness/sync/backward.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/measure/memory.h"

namespace gradsync::sync {

void backward(at::Tensor loss, int divisor, measure::StepRecorder* recorder) {
  const measure::PhaseScope scope(recorder, measure::Phase::Backward);
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  measure::meter().set_phase("backward");
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
