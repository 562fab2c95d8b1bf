// Accelerate's gradient-accumulation API, the part that decides when gradients are synchronized.
//
//   for (Epoch epoch(accelerator, micro_batches); epoch.next();) {
//     const auto window = accelerator.accumulate(model);
//     at::Tensor loss = model.forward(batch);
//     accelerator.backward(loss);
//     optimizer.step();       // does nothing until a sync is due
//     scheduler.step();
//     optimizer.zero_grad();  // at the end: before forward it would drop what the window gathered
//   }
// Source of the semantics: accelerate/accelerator.py, scheduler.py, optimizer.py, 1.x. Its
// promises, with a test each, and where this API differs: tests/README.md, "Accelerate's promises".
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

class Epoch;

class Accelerator {
 public:
  // Errors: ConfigError for a plugin whose num_steps is below 1.
  Accelerator(const GradientAccumulationPlugin& plugin, int world_size);

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

  // After several forwards under no_sync: the model's next backward, and no later one, reduces its
  // own gradients and those of the backwards before it. Local. Errors: as
  // Wrapper::trigger_sync_in_backward.
  void trigger_sync_in_backward(Wrapper& model) { model.trigger_sync_in_backward(); }

  // Runs backward of loss / num_steps; always divided, also in a short last window.
  // Collective where the micro-batch synchronizes.
  void backward(at::Tensor loss, measure::StepRecorder* recorder = nullptr);

  // True when the current micro-batch completes a window, and before the first one: optimizers and
  // schedulers then act.
  bool sync_gradients() const { return sync_gradients_; }
  // True during the last micro-batch of the innermost Epoch.
  bool end_of_dataloader() const;

  const GradientAccumulationPlugin& plugin() const { return plugin_; }
  int world_size() const { return world_size_; }

 private:
  friend class Epoch;
  GradientAccumulationPlugin plugin_;
  int world_size_;
  std::int64_t micro_batch_ = 0;  // since the end of the data last closed a window
  bool sync_gradients_ = true;
  const Epoch* epoch_ = nullptr;  // the innermost
};

// One pass over the data, whose end closes a window that is still open. Passes nest, as an
// evaluation inside of training does: the end of the innermost counts, and once it is over, or left
// by a break or an exception, that of the one around it.
class Epoch {
 public:
  // The accelerator must outlive it.
  Epoch(Accelerator& accelerator, std::int64_t micro_batches);
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  // Begins the next micro-batch. Returns false when there is none.
  bool next();
  // True during the last micro-batch.
  bool at_end() const { return begun_ == micro_batches_; }

 private:
  Accelerator& accelerator_;
  const Epoch* outer_;
  std::int64_t micro_batches_;
  std::int64_t begun_ = 0;  // one more than there are, once all are over
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

struct SchedulerOptions {
  bool split_batches = false;       // the ranks share one process' micro-batch: its schedule fits
  bool step_with_optimizer = true;  // false: acts at every call, whether a sync is due or not
};

// A scheduler that acts only where a sync is due, then once per rank: the schedule was written for
// one process that sees the whole data. With split_batches it acts once.
class PreparedScheduler {
 public:
  PreparedScheduler(LinearWarmup& scheduler, const Accelerator& accelerator,
                    const SchedulerOptions& options = {})
      : scheduler_(scheduler), accelerator_(accelerator), options_(options) {}
  void step();

 private:
  LinearWarmup& scheduler_;
  const Accelerator& accelerator_;
  SchedulerOptions options_;
};

}  // namespace gradsync::sync
