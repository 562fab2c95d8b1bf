// What Accelerate's API promises of accumulate, backward, optimizer and scheduler.
#include "harness/sync/accelerator.h"
#include "harness/sync/ddp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/sync/sync_due.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using sync::Accelerator;
using sync::DistributedDataParallel;

// Counts calls instead of doing arithmetic.
class CountingOptimizer : public sync::Optimizer {
 public:
  void step() override { ++steps; }
  void zero_grad() override { ++zeroed; }
  double lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  int steps = 0;
  int zeroed = 0;

 private:
  double lr_ = 1;
};

TEST(SyncDue, AtTheEndOfAWindowOrOfTheData) {
  EXPECT_FALSE(sync::sync_due(1, 4, false));
  EXPECT_TRUE(sync::sync_due(4, 4, false));
  EXPECT_TRUE(sync::sync_due(2, 4, true));
  EXPECT_TRUE(sync::sync_due(1, 1, false));
}

// Which of `micro_batches` micro-batches synchronize, and whether the model was under no_sync.
struct Pattern {
  std::vector<bool> sync_gradients;
  std::vector<bool> armed;
};

Pattern pattern(DistributedDataParallel& model, const sync::GradientAccumulationPlugin& plugin,
                int micro_batches) {
  Accelerator accelerator(plugin, 2);
  Pattern result;
  for (int i = 0; i < micro_batches; ++i) {
    accelerator.set_end_of_dataloader(i + 1 == micro_batches);
    const auto window = accelerator.accumulate(model);
    result.sync_gradients.push_back(accelerator.sync_gradients());
    result.armed.push_back(model.require_backward_grad_sync());
  }
  return result;
}

TEST(Accelerate, WindowsAndTheShortLastOne) {
  run_ranks(1, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {});
    using Flags = std::vector<bool>;
    EXPECT_EQ(pattern(model, {.num_steps = 2}, 5).sync_gradients, (Flags{0, 1, 0, 1, 1}));
    EXPECT_EQ(pattern(model, {.num_steps = 2, .sync_with_dataloader = false}, 5).sync_gradients,
              (Flags{0, 1, 0, 1, 0}));
    const Pattern each = pattern(model, {.num_steps = 2, .sync_each_batch = true}, 4);
    EXPECT_EQ(each.sync_gradients, (Flags{0, 1, 0, 1}));  // the optimizer steps as before
    EXPECT_EQ(each.armed, (Flags{1, 1, 1, 1}));           // ... but every micro-batch reduces
    EXPECT_EQ(pattern(model, {.num_steps = 2}, 4).armed, (Flags{0, 1, 0, 1}));
    EXPECT_TRUE(model.require_backward_grad_sync());
  });
}

TEST(Accelerate, OneContextHoldsSeveralModels) {
  run_ranks(1, [](RankHarness& rank) {
    DistributedDataParallel a(std::make_shared<ToyModel>(), rank.group, {});
    DistributedDataParallel b(std::make_shared<ToyModel>(), rank.group, {});
    Accelerator accelerator({.num_steps = 2}, 1);
    {
      const auto window = accelerator.accumulate({&a, &b});
      EXPECT_FALSE(a.require_backward_grad_sync());
      EXPECT_FALSE(b.require_backward_grad_sync());
    }
    EXPECT_TRUE(a.require_backward_grad_sync());
    EXPECT_TRUE(b.require_backward_grad_sync());
  });
}

TEST(Accelerate, BackwardAlwaysDividesByNumSteps) {
  run_ranks(1, [](RankHarness&) {
    Accelerator accelerator({.num_steps = 4}, 1);
    const at::Tensor weight = at::ones({}).requires_grad_();
    accelerator.set_end_of_dataloader(true);  // a window of one, and still / 4
    accelerator.backward(weight * 8);
    EXPECT_FLOAT_EQ(weight.grad().item<float>(), 2);
  });
}

TEST(Accelerate, OptimizerAndSchedulerActOnSyncOnly) {
  run_ranks(1, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {});
    constexpr int kWorldSize = 3;
    Accelerator accelerator({.num_steps = 2}, kWorldSize);
    CountingOptimizer inner;
    sync::LinearWarmup schedule(inner, 0, 1000);
    sync::PreparedOptimizer optimizer(inner, accelerator);
    sync::PreparedScheduler scheduler(schedule, accelerator);
    for (int i = 0; i < 4; ++i) {
      const auto window = accelerator.accumulate(model);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
    }
    EXPECT_EQ(inner.steps, 2);
    EXPECT_EQ(inner.zeroed, 2);
    EXPECT_EQ(schedule.steps(), 2 * kWorldSize);            // once per rank and sync
    EXPECT_EQ(schedule.counted(), 1 + 2 * kWorldSize + 2);  // adjust_scheduler counts the skipped
  });
}

TEST(LinearWarmupSchedule, RisesThenFalls) {
  CountingOptimizer optimizer;
  sync::LinearWarmup schedule(optimizer, 2, 6);
  const std::vector<double> wanted{0, 0.5, 1, 0.75, 0.5, 0.25, 0};
  for (const double lr : wanted) {
    EXPECT_DOUBLE_EQ(optimizer.lr(), lr);
    schedule.step();
  }
}

}  // namespace
}  // namespace gradsync::test
