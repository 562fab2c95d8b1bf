#include <utility>

#include "harness/measure/memory.h"
#include "harness/sync/backward.h"
#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {

bool Training::passes_over(int micro_batch) {
  if (!repeats || !repeats(micro_batch)) return false;
  data.next();
  loss_watch().pass_over();
  return true;
}

const models::Batch& Training::next_batch(int micro_batch) {
  recorder.begin_micro_batch(micro_batch);
  ledger.set_place(step, micro_batch);
  measure::meter().set_place(step, micro_batch, "forward");
  return data.next();
}

void Training::return_to(int micro_batch) {
  recorder.begin_micro_batch(micro_batch);
  ledger.set_place(step, micro_batch);
  measure::meter().set_place(step, micro_batch, "backward");
}

void Training::backward(at::Tensor loss, int micro_batches) {
  sync::backward(std::move(loss), full_window(micro_batches), &recorder);
}

void Training::update() {
  const measure::PhaseScope scope(&recorder, measure::Phase::Optimizer);
  measure::meter().set_phase("optimizer");
  optimizer.step();
  // As Accelerate's prepared scheduler, which all of the guide's scripts use: once per rank.
  for (int i = 0; i < world_size; ++i) scheduler.step();
  optimizer.zero_grad();
}

}  // namespace gradsync::sync
