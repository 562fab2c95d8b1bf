#include "harness/sync/backward.h"

#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/measure/memory.h"

namespace gradsync::sync {
namespace {

// Tells a rank's recorder where DDP's Reducer copies what was reduced back into gradients.
//
// Once a backward's computation is over, the Reducer waits for its buckets, one after the other,
// and copies each into its gradients before it waits for the next: all in one call, which would
// count as waiting as a whole. The range that the Reducer opens, for profilers, around the copy of
// each gradient tells the two apart. Where gradients are views of buckets (gradient_as_bucket_view)
// there is nothing to copy.
//
// Source: finalize_bucket_dense() in torch/csrc/distributed/c10d/reducer.cpp.
constexpr std::string_view kCopy = "torch.distributed.ddp.reducer::copy_bucket_to_grad";

struct Watch {
  measure::StepRecorder* recorder = nullptr;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};
thread_local Watch watch;

struct Copying : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& range) {
  if (range.name() != kCopy) return nullptr;
  watch.recorder->enter(measure::Phase::Copy);
  return std::make_unique<Copying>();
}

void on_end(const at::RecordFunction&, at::ObserverContext* copying) {
  if (copying != nullptr) watch.recorder->enter(measure::Phase::Wait);
}

// Does nothing on a thread that watches none.
void unwatch_copies() {
  if (watch.recorder == nullptr) return;
  at::removeCallback(watch.handle);
  watch = {};
}

// From now on the recorder, which is in Wait, sees Copy while this thread copies a bucket, and Wait
// again behind it. Cost: a call for each operator of this thread meanwhile, and six clock readings
// for each gradient.
void watch_copies(measure::StepRecorder& recorder) {
  unwatch_copies();
  watch.recorder = &recorder;
  watch.handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
}

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

models::Recomputation recomputation_of(const models::Model& model, models::CheckpointedUnits units,
                                       measure::StepRecorder* recorder) {
  std::vector<std::string> names;
  for (const models::Unit& unit : model.units()) names.push_back(unit.name);
  auto outside = std::make_shared<const measure::MemoryPlace>();
  const auto on_rerun = [names, recorder, outside](std::size_t unit, bool begins) mutable {
    if (recorder != nullptr) {
      recorder->enter(begins ? measure::Phase::Recompute : measure::Phase::Backward);
    }
    if (begins) {
      outside = measure::meter().place();
      measure::meter().set_phase("recompute", names.at(unit));
    } else {
      measure::meter().set_phase(outside->phase, outside->unit);
    }
  };
  return {units, on_rerun};
}

}  // namespace gradsync::sync
