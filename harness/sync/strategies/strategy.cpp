#include <map>
#include <utility>

#include "harness/base/errors.h"
#include "harness/measure/memory.h"
#include "harness/plan/strategies.h"
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

namespace {

// Filled before main by static objects of any file, hence made by the first of them.
std::map<std::string, MakeStrategy>& registered() {
  static std::map<std::string, MakeStrategy> makers;
  return makers;
}

}  // namespace

StrategyRegistration::StrategyRegistration(const std::string& name, MakeStrategy make) {
  registered().emplace(name, make);
}

std::unique_ptr<Strategy> make_strategy(const std::string& name) {
  const plan::StrategyEntry& entry = plan::find_strategy(name);
  GRADSYNC_CHECK(registered().count(entry.name), ==, 1U);
  return registered().at(entry.name)();
}

}  // namespace gradsync::sync
