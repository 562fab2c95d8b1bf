// Baseline: accumulate gradients with no regard for synchronization. Every backward all-reduces.
#include <utility>

#include "harness/sync/strategies/factories.h"

namespace gradsync::sync {
namespace {

class Baseline final : public Strategy {
 public:
  void step(Training& training, int micro_batches) override {
    for (int i = 0; i < micro_batches; ++i) {
      const models::Batch& batch = training.next_batch(i);
      at::Tensor loss = training.model.forward(batch);
      training.backward(std::move(loss), micro_batches);
    }
    training.update();
  }

  std::vector<bool> declared_syncs(int micro_batches, FlagRead) const override {
    return std::vector<bool>(micro_batches, true);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_baseline() {
  return std::make_unique<Baseline>();
}

}  // namespace gradsync::sync
