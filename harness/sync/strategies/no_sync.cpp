// no_sync, properly: around forward and backward of every micro-batch but the last.
#include <utility>

#include "harness/sync/strategies/strategy.h"
#include "harness/sync/wrapper.h"

namespace gradsync::sync {
namespace {

class NoSync final : public Strategy {
 public:
  void step(Training& training, int micro_batches) override {
    for (int i = 0; i < micro_batches; ++i) {
      if (training.passes_over(i)) continue;
      const models::Batch& batch = training.next_batch(i);
      if (!sync_due(i + 1, micro_batches, false)) {
        const NoSyncGuard guard = training.model.no_sync();
        at::Tensor loss = training.model.forward(batch);
        training.backward(std::move(loss), micro_batches);
      } else {
        at::Tensor loss = training.model.forward(batch);
        training.backward(std::move(loss), micro_batches);
      }
    }
    training.update();
  }
};

const StrategyRegistration kNoSync{"no_sync", make<NoSync>};

}  // namespace
}  // namespace gradsync::sync
