// What Accelerate promises of gradient accumulation, a test for each promise: the table is in
// tests/README.md. Whole loops are held against Accelerate itself by accelerate_oracle_test.cpp.
#include "harness/sync/accelerator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/sync/ddp.h"
#include "harness/sync/wrapper.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using sync::Accelerator;
using sync::DdpOptions;
using sync::DistributedDataParallel;
using sync::Epoch;
using sync::GradientAccumulationPlugin;
using Counts = std::vector<int>;

constexpr int kRanks = 2;

// loss = weight x: the gradient is x, so that a rank's gradient shows what it was given.
class Slope : public models::Model {
 public:
  Slope() { weight_ = register_parameter("weight", at::zeros({1})); }
  at::Tensor loss(const models::Batch& batch) override {
    return (weight_ * batch.input_ids.to(at::kFloat)).mean();
  }

 private:
  at::Tensor weight_;
};

models::Batch slope_batch(std::int64_t x) {
  models::Batch batch;
  batch.input_ids = at::full({1}, x, at::kLong);
  return batch;
}

// A Slope under DDP, and the accelerator of its loop.
struct Loop {
  DistributedDataParallel model;
  Accelerator accelerator;

  explicit Loop(RankHarness& rank, const GradientAccumulationPlugin& plugin = {},
                const DdpOptions& options = {})
      : model(std::make_shared<Slope>(), rank.group, options),
        accelerator(plugin, rank.world_size) {}

  void backward(std::int64_t x) { accelerator.backward(model.forward(slope_batch(x))); }
  double weight() const { return model.parameters()[0].item<double>(); }
  double gradient() const { return model.parameters()[0].grad().item<double>(); }
};

// Counts for each micro-batch of an epoch.
struct Seen {
  Counts sync_gradients;  // 0 or 1
  Counts all_reduces;
};

// One pass over `micro_batches` micro-batches, each of them x = 1.
Seen pass(RankHarness& rank, Loop& loop, int micro_batches) {
  Seen seen;
  for (Epoch epoch(loop.accelerator, micro_batches); epoch.next();) {
    seen.all_reduces.push_back(all_reduces(rank, [&] {
      const auto window = loop.accelerator.accumulate(loop.model);
      loop.backward(1);
    }));
    seen.sync_gradients.push_back(loop.accelerator.sync_gradients() ? 1 : 0);
  }
  return seen;
}

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

TEST(Accelerate, NoSyncKeepsGradientsOnTheirRank) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank);
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            const auto guard = loop.accelerator.no_sync(loop.model);
                            loop.backward(1 + rank.rank);
                          }),
              0);
    EXPECT_EQ(loop.gradient(), 1 + rank.rank);
  });
}

TEST(Accelerate, TheFirstForwardAndBackwardOutsideNoSyncReducesAll) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank);
    {
      const auto guard = loop.accelerator.no_sync(loop.model);
      loop.backward(rank.rank == 0 ? 1 : 3);
    }
    EXPECT_EQ(all_reduces(rank, [&] { loop.backward(rank.rank == 0 ? 5 : 9); }), 1);
    EXPECT_EQ(loop.gradient(), ((1 + 5) + (3 + 9)) / 2);
  });
}

TEST(Accelerate, NoSyncOnOneRankChangesNothing) {
  run_ranks(1, [](RankHarness& rank) {
    Loop loop(rank);
    {
      const auto guard = loop.accelerator.no_sync(loop.model);
      loop.backward(3);
    }
    EXPECT_EQ(loop.gradient(), 3);
    loop.backward(4);
    EXPECT_EQ(loop.gradient(), 7);
  });
}

TEST(Accelerate, TriggeredBackwardReducesWhatSeveralForwardsGave) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank);
    std::vector<at::Tensor> losses;
    {
      const auto guard = loop.accelerator.no_sync(loop.model);
      for (const int x : {1, 2, 4}) {
        losses.push_back(loop.model.forward(slope_batch(x * (rank.rank + 1))));
      }
    }
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            loop.accelerator.backward(losses[0]);
                            loop.accelerator.backward(losses[1]);
                          }),
              0);
    EXPECT_EQ(loop.gradient(), 3 * (rank.rank + 1));
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            loop.accelerator.trigger_sync_in_backward(loop.model);
                            loop.accelerator.backward(losses[2]);
                          }),
              1);
    EXPECT_EQ(loop.gradient(), (7 + 14) / 2.0);
  });
}

TEST(Accelerate, ATriggerHoldsForOneBackward) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank);
    std::vector<at::Tensor> losses;
    {
      const auto guard = loop.accelerator.no_sync(loop.model);
      for (const int x : {1, 2}) losses.push_back(loop.model.forward(slope_batch(x)));
    }
    loop.accelerator.trigger_sync_in_backward(loop.model);
    EXPECT_TRUE(loop.model.require_backward_grad_sync());
    EXPECT_EQ(all_reduces(rank, [&] { loop.accelerator.backward(losses[0]); }), 1);
    EXPECT_EQ(all_reduces(rank, [&] { loop.accelerator.backward(losses[1]); }), 0);
    EXPECT_EQ(all_reduces(rank, [&] { loop.backward(1); }), 1);  // and all is as before
  });
}

TEST(Accelerate, ATriggerServesAStaticGraph) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {}, {.static_graph = true});
    loop.backward(0);  // the Reducer learns the graph from it
    at::Tensor loss;
    {
      const auto guard = loop.accelerator.no_sync(loop.model);
      loss = loop.model.forward(slope_batch(1 + rank.rank));
    }
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            loop.accelerator.trigger_sync_in_backward(loop.model);
                            loop.accelerator.backward(loss);
                          }),
              1);
    EXPECT_EQ(loop.gradient(), 1.5);
  });
}

TEST(Accelerate, ATriggerRefusesFindUnusedParameters) {
  run_ranks(1, [](RankHarness& rank) {
    Loop loop(rank, {}, {.find_unused_parameters = true});
    EXPECT_THAT(
        [&] { loop.accelerator.trigger_sync_in_backward(loop.model); },
        testing::ThrowsMessage<ConfigError>(
            "trigger_sync_in_backward: the model has find_unused_parameters, expected a model "
            "without (they are found in forward, and without it all count as unused)"));
  });
}

TEST(Accelerate, ATriggerIsForDdpAlone) {
  run_ranks(kRanks, [](RankHarness& rank) {
    sync::FullyShardedDataParallel model(std::make_shared<ToyLayers>(),
                                         sync::FsdpGroups{rank.group, nullptr}, {});
    Accelerator accelerator({}, kRanks);
    EXPECT_EQ(count_collectives(rank, "reduce_scatter",
                                [&] {
                                  const auto guard = accelerator.no_sync(model);
                                  const at::Tensor loss = model.forward(toy_batch(rank.rank, 0));
                                  accelerator.trigger_sync_in_backward(model);
                                  accelerator.backward(loss);
                                }),
              0);
  });
}

TEST(Accelerate, EveryWindowReducesOnce) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 3});
    const Seen seen = pass(rank, loop, 6);
    EXPECT_EQ(seen.sync_gradients, (Counts{0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(seen.all_reduces, (Counts{0, 0, 1, 0, 0, 1}));
  });
}

TEST(Accelerate, AccumulatingTrainsAsTheWholeBatchDoes) {
  run_ranks(kRanks, [](RankHarness& rank) {
    constexpr int kMicroBatches = 2;
    const auto x = [](int step, int i, int of_rank) { return 1 + step + 3 * i - 5 * of_rank; };
    Loop loop(rank, {.num_steps = kMicroBatches});
    sync::FusedAdamW adamw(loop.model.parameters(), {.lr = 1e-2});
    sync::PreparedOptimizer optimizer(adamw, loop.accelerator);
    at::Tensor alone = at::zeros({1}).requires_grad_();
    sync::FusedAdamW whole_batch({alone}, {.lr = 1e-2});
    for (int step = 0; step < 3; ++step) {
      double sum = 0;
      for (int i = 0; i < kMicroBatches; ++i) {
        for (int of_rank = 0; of_rank < kRanks; ++of_rank) sum += x(step, i, of_rank);
        const auto window = loop.accelerator.accumulate(loop.model);
        loop.backward(x(step, i, rank.rank));
        optimizer.step();
        optimizer.zero_grad();
      }
      alone.mutable_grad() = at::full({1}, sum / (kMicroBatches * kRanks));
      whole_batch.step();
      EXPECT_NEAR(loop.weight(), alone.item<double>(), 1e-7) << "step " << step;
    }
    EXPECT_NE(loop.weight(), 0);
  });
}

TEST(Accelerate, TheEndOfTheDataClosesAShortWindow) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 3});
    for (int epoch = 0; epoch < 2; ++epoch) {  // the next one begins with a whole window
      const Seen seen = pass(rank, loop, 5);
      EXPECT_EQ(seen.sync_gradients, (Counts{0, 0, 1, 0, 1})) << "epoch " << epoch;
      EXPECT_EQ(seen.all_reduces, (Counts{0, 0, 1, 0, 1})) << "epoch " << epoch;
    }
  });
}

TEST(Accelerate, WithoutSyncWithDataloaderAWindowSpansEpochs) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 3, .sync_with_dataloader = false});
    EXPECT_EQ(pass(rank, loop, 5).all_reduces, (Counts{0, 0, 1, 0, 0}));
    EXPECT_EQ(pass(rank, loop, 5).all_reduces, (Counts{1, 0, 0, 1, 0}));
  });
}

TEST(Accelerate, BackwardDividesByNumStepsAlsoInAShortWindow) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 4});
    pass(rank, loop, 2);
    EXPECT_EQ(loop.gradient(), 2 * 1.0 / 4);
  });
}

TEST(Accelerate, SyncEachBatchReducesInEveryMicroBatch) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 2, .sync_each_batch = true});
    const Seen seen = pass(rank, loop, 4);
    EXPECT_EQ(seen.all_reduces, (Counts{1, 1, 1, 1}));
    EXPECT_EQ(seen.sync_gradients, (Counts{0, 1, 0, 1}));  // the optimizer steps as before
  });
}

TEST(Accelerate, SyncEachBatchGivesTheSameGradient) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 2, .sync_each_batch = true});
    for (const int x : {1, 7}) {
      const auto window = loop.accelerator.accumulate(loop.model);
      loop.backward(x + 4 * rank.rank);
    }
    EXPECT_EQ(loop.gradient(), ((1 + 7) + (5 + 11)) / 4.0);
  });
}

TEST(Accelerate, OneContextHoldsSeveralModels) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop first(rank, {.num_steps = 2});
    DistributedDataParallel second(std::make_shared<Slope>(), rank.group, {});
    DistributedDataParallel left_out(std::make_shared<Slope>(), rank.group, {});
    Counts reductions;
    for (const int x : {1, 7}) {
      const auto window = first.accelerator.accumulate({&first.model, &second});
      reductions.push_back(all_reduces(rank, [&] {
        first.backward(x + 4 * rank.rank);
        first.accelerator.backward(second.forward(slope_batch(10 * x)));
      }));
      EXPECT_EQ(
          all_reduces(rank, [&] { first.accelerator.backward(left_out.forward(slope_batch(1))); }),
          1);
    }
    EXPECT_EQ(reductions, (Counts{0, 2}));
    EXPECT_EQ(first.gradient(), ((1 + 7) + (5 + 11)) / 4.0);
    EXPECT_EQ(second.parameters()[0].grad().item<double>(), (10 + 70) / 2.0);
  });
}

TEST(Accelerate, AWindowEndsWithTheExceptionInside) {
  run_ranks(1, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 2});
    try {
      const auto window = loop.accelerator.accumulate(loop.model);
      EXPECT_FALSE(loop.model.require_backward_grad_sync());
      throw std::runtime_error("in the window");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(loop.model.require_backward_grad_sync());
  });
}

TEST(Accelerate, AWindowInsideNoSyncReducesNothing) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 1});
    const auto guard = loop.accelerator.no_sync(loop.model);
    EXPECT_EQ(pass(rank, loop, 1).all_reduces, (Counts{0}));
    EXPECT_TRUE(loop.accelerator.sync_gradients());  // so an optimizer would step, each rank alone
  });
}

TEST(Accelerate, AnEpochInsideAnotherEndsByItself) {
  run_ranks(1, [](RankHarness& rank) {
    Loop loop(rank);
    EXPECT_FALSE(loop.accelerator.end_of_dataloader());
    Epoch training(loop.accelerator, 2);
    ASSERT_TRUE(training.next());
    EXPECT_FALSE(loop.accelerator.end_of_dataloader());
    for (Epoch evaluation(loop.accelerator, 1); evaluation.next();) {
      EXPECT_TRUE(loop.accelerator.end_of_dataloader());
    }
    EXPECT_FALSE(loop.accelerator.end_of_dataloader());
    ASSERT_TRUE(training.next());
    EXPECT_TRUE(loop.accelerator.end_of_dataloader());
    for (Epoch evaluation(loop.accelerator, 2); evaluation.next();) {
      EXPECT_FALSE(loop.accelerator.end_of_dataloader());
      break;
    }
    EXPECT_TRUE(loop.accelerator.end_of_dataloader());
    EXPECT_FALSE(training.next());
    EXPECT_FALSE(loop.accelerator.end_of_dataloader());
  });
}

TEST(Accelerate, WithoutAccumulateEverythingActs) {
  Accelerator accelerator({.num_steps = 4}, 1);
  CountingOptimizer inner;
  sync::LinearWarmup schedule(inner, 0, 1000);
  sync::PreparedOptimizer(inner, accelerator).step();
  sync::PreparedScheduler(schedule, accelerator).step();
  EXPECT_EQ(inner.steps, 1);
  EXPECT_EQ(schedule.steps(), 1);
}

TEST(Accelerate, ANumStepsBelowOneIsRefused) {
  EXPECT_THAT([] { Accelerator({.num_steps = 0}, 1); },
              testing::ThrowsMessage<ConfigError>(
                  "GradientAccumulationPlugin: num_steps: got 0, expected at least 1"));
}

// Calls `body` in each of `micro_batches` windows without a model.
template <typename Body>
void in_windows(Accelerator& accelerator, int micro_batches, Body body) {
  for (int i = 0; i < micro_batches; ++i) {
    const auto window = accelerator.accumulate(std::vector<sync::Wrapper*>{});
    body();
  }
}

TEST(Accelerate, TheOptimizerStepsOnSyncOnly) {
  Accelerator accelerator({.num_steps = 2}, 3);
  CountingOptimizer inner;
  sync::PreparedOptimizer optimizer(inner, accelerator);
  in_windows(accelerator, 5, [&] { optimizer.step(); });
  EXPECT_EQ(inner.steps, 2);
}

TEST(Accelerate, TheOptimizerZeroesOnSyncOnly) {
  Accelerator accelerator({.num_steps = 2}, 3);
  CountingOptimizer inner;
  sync::PreparedOptimizer optimizer(inner, accelerator);
  in_windows(accelerator, 5, [&] { optimizer.zero_grad(); });
  EXPECT_EQ(inner.zeroed, 2);
}

// The guide's listing of accumulate() begins its loop with zero_grad(). Where a sync is due that
// acts, and drops what the window has gathered.
TEST(Accelerate, ZeroGradBeforeForwardLeavesTheLastMicroBatchAlone) {
  run_ranks(kRanks, [](RankHarness& rank) {
    Loop loop(rank, {.num_steps = 2});
    sync::FusedAdamW adamw(loop.model.parameters(), {});
    sync::PreparedOptimizer optimizer(adamw, loop.accelerator);
    for (const int x : {1, 7}) {
      const auto window = loop.accelerator.accumulate(loop.model);
      optimizer.zero_grad();
      loop.backward(x);
    }
    EXPECT_EQ(loop.gradient(), 7 / 2.0);  // not (1 + 7) / 2
  });
}

TEST(Accelerate, TheSchedulerStepsOncePerRankOnSync) {
  Accelerator accelerator({.num_steps = 2}, 3);
  CountingOptimizer inner;
  sync::LinearWarmup schedule(inner, 0, 12);
  sync::PreparedScheduler scheduler(schedule, accelerator);
  in_windows(accelerator, 5, [&] { scheduler.step(); });
  EXPECT_EQ(schedule.steps(), 2 * 3);
  EXPECT_DOUBLE_EQ(inner.lr(), 0.5);
}

TEST(Accelerate, WithSplitBatchesTheSchedulerStepsOnceOnSync) {
  Accelerator accelerator({.num_steps = 2}, 3);
  CountingOptimizer inner;
  sync::LinearWarmup schedule(inner, 0, 12);
  sync::PreparedScheduler scheduler(schedule, accelerator, {.split_batches = true});
  in_windows(accelerator, 5, [&] { scheduler.step(); });
  EXPECT_EQ(schedule.steps(), 2);
}

TEST(Accelerate, AdjustSchedulerCountsTheStepsThatAreSkipped) {
  for (const bool adjust_scheduler : {true, false}) {
    Accelerator accelerator({.num_steps = 2, .adjust_scheduler = adjust_scheduler}, 3);
    CountingOptimizer inner;
    sync::LinearWarmup schedule(inner, 0, 12);
    sync::PreparedScheduler scheduler(schedule, accelerator);
    in_windows(accelerator, 5, [&] { scheduler.step(); });
    EXPECT_EQ(schedule.counted(), 1 + 2 * 3 + (adjust_scheduler ? 3 : 0));
  }
}

TEST(Accelerate, ASchedulerWithoutItsOptimizerStepsAtEveryCall) {
  Accelerator accelerator({.num_steps = 2}, 3);
  CountingOptimizer inner;
  sync::LinearWarmup schedule(inner, 0, 12);
  sync::PreparedScheduler scheduler(schedule, accelerator, {.step_with_optimizer = false});
  in_windows(accelerator, 5, [&] { scheduler.step(); });
  EXPECT_EQ(schedule.steps(), 5);
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
