// no_sync, improperly: around backward only. DDP's forward() has armed the Reducer by then, so this
// is the baseline with a flag flipped to and fro: the same all-reduces, the same bytes, the same
// gradients. FSDP reads the flag in backward, so there it has no_sync's effect all the same.
#include <utility>

#include "harness/sync/strategies/strategy.h"
#include "harness/sync/wrapper.h"

namespace gradsync::sync {
namespace {

class NoSyncImproper final : public Strategy {
 public:
  void step(Training& training, int micro_batches) override {
    for (int i = 0; i < micro_batches; ++i) {
      if (training.passes_over(i)) continue;
      const models::Batch& batch = training.next_batch(i);
      at::Tensor loss = training.model.forward(batch);
      if (!sync_due(i + 1, micro_batches, false)) {
        const NoSyncGuard guard = training.model.no_sync();
        training.backward(std::move(loss), micro_batches);
      } else {
        training.backward(std::move(loss), micro_batches);
      }
    }
    training.update();
  }
};

const StrategyRegistration kNoSyncImproper{"no_sync_improper", make<NoSyncImproper>};

}  // namespace
}  // namespace gradsync::sync
