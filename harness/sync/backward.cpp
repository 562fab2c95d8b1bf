#include "harness/sync/backward.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "harness/measure/memory.h"
#include "harness/sync/copy_watch.h"

namespace gradsync::sync {
namespace {

// The engine runs queued callbacks in order once the graph is done. The Reducer queues its own,
// which waits for the buckets, with the last gradient; the first of these is queued with the first
// gradient, and the other one while the first runs: behind the Reducer's.
void mark_wait(measure::StepRecorder* recorder) {
  auto& engine = torch::autograd::Engine::get_default_engine();
  engine.queue_callback([recorder, &engine] {
    recorder->enter(measure::Phase::Wait);
    watch_copies(*recorder);
    engine.queue_callback(unwatch_copies);
  });
}

// Where a lost peer ended the callbacks in between.
struct CopiesUnwatched {
  ~CopiesUnwatched() { unwatch_copies(); }
};

}  // namespace

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
  const CopiesUnwatched in_the_end;
  if (recorder != nullptr) {
    loss.register_hook([recorder](const at::Tensor&) { mark_wait(recorder); });
  }
  torch::autograd::backward({loss}, {});
  if (recorder != nullptr) recorder->enter(measure::Phase::Backward);
  loss.reset();
}

}  // namespace gradsync::sync
