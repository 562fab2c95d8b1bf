// pipelined: every forward of a step before its first backward, so that the stages of a pipeline
// work on different micro-batches at the same time. Each rank keeps what all forwards of its stage
// hold.
#include <utility>
#include <vector>

#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {
namespace {

class Pipelined final : public Strategy {
 public:
  void step(Training& training, int micro_batches) override {
    std::vector<at::Tensor> losses;
    for (int i = 0; i < micro_batches; ++i) {
      losses.push_back(training.model.forward(training.next_batch(i)));
    }
    for (int i = 0; i < micro_batches; ++i) {
      training.return_to(i);
      training.backward(std::move(losses[static_cast<std::size_t>(i)]), micro_batches);
    }
    training.update();
  }
};

const StrategyRegistration kPipelined{"pipelined", make<Pipelined>};

}  // namespace
}  // namespace gradsync::sync
