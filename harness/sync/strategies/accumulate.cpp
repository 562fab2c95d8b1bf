// accumulate: the same decision, made by Accelerate's API instead of by the training loop.
// sync_each_batch: the same API told to reduce in every micro-batch, which spares FSDP from keeping
// whole gradients; the optimizer steps as often as before.
#include <utility>

#include "harness/measure/memory.h"
#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {
namespace {

class Accumulate final : public Strategy {
 public:
  explicit Accumulate(bool sync_each_batch) : sync_each_batch_(sync_each_batch) {}

  void step(Training& training, int micro_batches) override {
    Accelerator accelerator(
        {.num_steps = training.full_window(micro_batches), .sync_each_batch = sync_each_batch_},
        training.world_size);
    PreparedOptimizer optimizer(training.optimizer, accelerator);
    PreparedScheduler scheduler(training.scheduler, accelerator);
    Epoch epoch(accelerator, micro_batches);  // its end closes a window that is not full
    for (int i = 0; epoch.next(); ++i) {
      const auto window = accelerator.accumulate(training.model);
      if (training.passes_over(i)) continue;
      const models::Batch& batch = training.next_batch(i);
      at::Tensor loss = training.model.forward(batch);
      accelerator.backward(std::move(loss), &training.recorder);
      const measure::PhaseScope scope(&training.recorder, measure::Phase::Optimizer);
      measure::meter().set_phase("optimizer");
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
    }
  }

 private:
  bool sync_each_batch_;
};

const StrategyRegistration kAccumulate{"accumulate", make<Accumulate, false>};
const StrategyRegistration kSyncEachBatch{"sync_each_batch", make<Accumulate, true>};

}  // namespace
}  // namespace gradsync::sync
