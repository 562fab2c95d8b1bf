// Accelerate's gradient-accumulation API, the part that decides when gradients are synchronized.
//
//   for (...) {
//     auto window = accelerator.accumulate(model);
//     at::Tensor loss = model.forward(batch);
//     accelerator.backward(loss);
//     optimizer.step();       // does nothing until a sync is due
//     scheduler.step();
//     optimizer.zero_grad();
//   }
// Source of the semantics: accelerate/accelerator.py, scheduler.py, optimizer.py, 1.x.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "harness/sync/adamw.h"
#include "harness/sync/wrapper.h"

namespace gradsync::sync {

struct GradientAccumulationPlugin {
  int num_steps = 1;                 // micro-batches per optimizer step
  bool adjust_scheduler = true;      // count the scheduler's skipped steps
  bool sync_with_dataloader = true;  // close a short window at the end of the data
  bool sync_each_batch = false;      // reduce in every micro-batch; the optimizer steps as before
};

class Accelerator {
 public:
  Accelerator(const GradientAccumulationPlugin& plugin, int world_size)
      : plugin_(plugin), world_size_(world_size) {}

  // One micro-batch's context: holds no_sync for every model whose gradients are not due.
  class [[nodiscard]] Window {
   private:
    friend class Accelerator;
    std::list<NoSyncGuard> guards_;  // a list: guards do not move
  };

  // Decides whether this micro-batch synchronizes, and returns the context to run it in. One
  // forward and backward per context.
  Window accumulate(Wrapper& model) { return accumulate({&model}); }
  Window accumulate(const std::vector<Wrapper*>& models);

  // Use as `auto guard = accelerator.no_sync(model);` around forward and backward.
  NoSyncGuard no_sync(Wrapper& model) { return model.no_sync(); }

  // Runs backward of loss / num_steps; always divided, also in a short last window.
  // Collective where the micro-batch synchronizes.
  void backward(at::Tensor loss, measure::StepRecorder* recorder = nullptr);

  // True when the current micro-batch completes a window: optimizers and schedulers then act.
  bool sync_gradients() const { return sync_gradients_; }
  // The data loader says so before its last micro-batch, and takes it back afterwards.
  void set_end_of_dataloader(bool end) { end_of_dataloader_ = end; }

  const GradientAccumulationPlugin& plugin() const { return plugin_; }
  int world_size() const { return world_size_; }
  // Forgets the micro-batches of an unfinished window.
  void reset() { micro_batch_ = 0; }

 private:
  GradientAccumulationPlugin plugin_;
  int world_size_;
  std::int64_t micro_batch_ = 0;  // since the data last ended
  bool sync_gradients_ = true;
  bool end_of_dataloader_ = false;
};

// An optimizer that acts only where a sync is due.
class PreparedOptimizer : public Optimizer {
 public:
  PreparedOptimizer(Optimizer& optimizer, const Accelerator& accelerator)
      : optimizer_(optimizer), accelerator_(accelerator) {}
  void step() override;
  void zero_grad() override;
  double lr() const override { return optimizer_.lr(); }
  void set_lr(double lr) override { optimizer_.set_lr(lr); }

 private:
  Optimizer& optimizer_;
  const Accelerator& accelerator_;
};

// A scheduler that acts only where a sync is due, then once per rank: the schedule was written for
// one process that sees the whole data. With split_batches it acts once.
class PreparedScheduler {
 public:
  PreparedScheduler(LinearWarmup& scheduler, const Accelerator& accelerator,
                    bool split_batches = false)
      : scheduler_(scheduler), accelerator_(accelerator), split_batches_(split_batches) {}
  void step();

 private:
  LinearWarmup& scheduler_;
  const Accelerator& accelerator_;
  bool split_batches_;
};

}  // namespace gradsync::sync
