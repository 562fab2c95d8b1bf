// Baseline: accumulate gradients with no regard for synchronization. Every backward all-reduces.
#include <utility>

#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {
namespace {

class Baseline final : public Strategy {
 public:
  void step(Training& training, int micro_batches) override {
    for (int i = 0; i < micro_batches; ++i) {
      if (training.passes_over(i)) continue;
      const models::Batch& batch = training.next_batch(i);
      at::Tensor loss = training.model.forward(batch);
      training.backward(std::move(loss), micro_batches);
    }
    training.update();
  }
};

const StrategyRegistration kBaseline{"baseline", make<Baseline>};

}  // namespace
}  // namespace gradsync::sync
