// The wrapper against one process on the whole batch, and the decision it makes in forward().
// Covers: backward.cpp, parameters.cpp, harness/comm/gloo_backend.cpp.
#include "harness/sync/ddp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/sync/backward.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using sync::DdpOptions;
using sync::DistributedDataParallel;

// The gradients that one process gets from the micro-batches of all ranks, averaged.
std::vector<at::Tensor> reference_gradients(int world_size, int micro_batches) {
  ToyModel model;
  for (int rank = 0; rank < world_size; ++rank) {
    for (int i = 0; i < micro_batches; ++i) {
      const at::Tensor loss = model.loss(toy_batch(rank, i)) / (world_size * micro_batches);
      sync::backward(loss, 1, nullptr);
    }
  }
  return gradients_held_by(model);
}

class DdpVariants : public ::testing::TestWithParam<DdpOptions> {};

TEST_P(DdpVariants, GradientsAreTheMeanOverRanks) {
  for (const int world_size : {2, 3}) {
    const auto wanted = reference_gradients(world_size, 1);
    run_ranks(world_size, [&](RankHarness& rank) {
      DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, GetParam());
      for (int repeat = 0; repeat < 3; ++repeat) {  // past the bucket rebuild
        for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
        sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
        expect_gradients(model, wanted);
      }
    });
  }
}

TEST_P(DdpVariants, AccumulatingUnderNoSyncGivesTheSameGradients) {
  const auto wanted = reference_gradients(2, 2);
  run_ranks(2, [&](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, GetParam());
    sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);  // static_graph learns
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    {
      const auto guard = model.no_sync();
      sync::backward(model.forward(toy_batch(rank.rank, 0)) / 2, 1, nullptr);
    }
    sync::backward(model.forward(toy_batch(rank.rank, 1)) / 2, 1, nullptr);
    expect_gradients(model, wanted);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Options, DdpVariants,
    ::testing::Values(DdpOptions{}, DdpOptions{.find_unused_parameters = true},
                      DdpOptions{.static_graph = true}, DdpOptions{.gradient_as_bucket_view = true},
                      DdpOptions{.first_bucket_bytes = 16, .bucket_cap_bytes = 64}));

TEST(Ddp, StartsEveryRankFromRankZero) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = std::make_shared<ToyModel>(rank.rank == 0 ? 0.5 : 0.25);
    const DistributedDataParallel model(module, rank.group, {});
    EXPECT_EQ(module->w1[0][0].item<float>(), 0.5F);
    EXPECT_EQ(module->counter[0].item<float>(), 0.5F);
  });
}

TEST(Ddp, RefusesRanksWhoseParametersDiffer) {
  EXPECT_THROW(run_ranks(2,
                         [](RankHarness& rank) {
                           const DistributedDataParallel model(
                               std::make_shared<ToyModel>(0.1, rank.rank == 0 ? 8 : 16), rank.group,
                               {});
                         }),
               std::exception);
}

TEST(Ddp, BucketsAreCutAtTheRebuild) {
  run_ranks(2, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group,
                                  {.first_bucket_bytes = 16, .bucket_cap_bytes = 64});
    sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
    EXPECT_EQ(model.reduction_bytes(), (std::vector<std::int64_t>{192}));  // all 48 floats
    EXPECT_EQ(model.gradient_bytes(), 192);
    sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
    // In the order of readiness: 32 bytes of the branch fill the first bucket; w2's 32 do not fill
    // the next, w1's 128 do.
    EXPECT_EQ(model.reduction_bytes(), (std::vector<std::int64_t>{32, 160}));
  });
}

// Returns the phases of a synchronized backward, after the rebuild of buckets, as they are noted:
// before copies that follow each other at once are joined.
std::vector<measure::Phase> phases_of_backward(RankHarness& rank, const DdpOptions& options,
                                               bool synced = true) {
  DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, options);
  sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
  sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
  std::optional<sync::NoSyncGuard> guard;
  if (!synced) guard.emplace(model);
  const at::Tensor loss = model.forward(toy_batch(rank.rank, 0));
  rank.recorder.begin_block();
  sync::backward(loss, 1, &rank.recorder);
  loss.add(1);  // nothing is watched any more
  rank.recorder.end_step();
  std::vector<measure::Phase> phases;
  for (const auto& interval : rank.recorder.steps().front().intervals) {
    phases.push_back(interval.phase);
  }
  return phases;
}

TEST(Ddp, WhatIsCopiedBackIsNoWaiting) {
  using enum measure::Phase;
  run_ranks(2, [](RankHarness& rank) {
    const DdpOptions two_buckets{.first_bucket_bytes = 16, .bucket_cap_bytes = 64};
    // Each of the three gradients is copied by itself.
    EXPECT_EQ(phases_of_backward(rank, two_buckets),
              (std::vector{Backward, Wait, Copy, Wait, Copy, Wait, Copy, Wait, Backward}));
    EXPECT_EQ(phases_of_backward(rank, two_buckets, false),
              (std::vector{Backward, Wait, Backward}));
  });
}

TEST(Ddp, GradientsThatAreViewsOfBucketsAreNotCopied) {
  using enum measure::Phase;
  run_ranks(2, [](RankHarness& rank) {
    EXPECT_EQ(phases_of_backward(rank, {.gradient_as_bucket_view = true}),
              (std::vector{Backward, Wait, Backward}));
  });
}

TEST(Ddp, ForwardDecidesAndBackwardDoesNot) {
  run_ranks(2, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {});
    const auto batch = toy_batch(rank.rank, 0);
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            const at::Tensor loss = model.forward(batch);
                            const auto guard = model.no_sync();  // too late
                            sync::backward(loss, 1, nullptr);
                          }),
              1);
    EXPECT_EQ(all_reduces(rank,
                          [&] {
                            at::Tensor loss;
                            {
                              const auto guard = model.no_sync();
                              loss = model.forward(batch);
                            }
                            sync::backward(loss, 1, nullptr);  // outside, and yet not synchronized
                          }),
              0);
  });
}

TEST(Ddp, GuardsNestAndSurviveExceptions) {
  run_ranks(1, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {});
    {
      const auto outer = model.no_sync();
      {
        const auto inner = model.no_sync();
        EXPECT_FALSE(model.require_backward_grad_sync());
      }
      EXPECT_FALSE(model.require_backward_grad_sync());
    }
    EXPECT_TRUE(model.require_backward_grad_sync());
    try {
      const auto guard = model.no_sync();
      throw std::runtime_error("in the window");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(model.require_backward_grad_sync());
  });
}

TEST(Ddp, BuffersAreBroadcastBeforeASynchronizedForwardOnly) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = std::make_shared<ToyModel>();
    DistributedDataParallel model(module, rank.group, {});
    const auto drift = [&] { module->counter.fill_(rank.rank + 1); };
    const auto batch = toy_batch(rank.rank, 0);
    drift();
    sync::backward(model.forward(batch), 1, nullptr);
    EXPECT_EQ(module->counter[0].item<float>(), 1.0F);
    {
      const auto guard = model.no_sync();
      sync::backward(model.forward(batch), 1, nullptr);  // follows a synchronized one: broadcasts
      drift();
      sync::backward(model.forward(batch), 1, nullptr);  // follows an unsynchronized one: does not
    }
    EXPECT_EQ(module->counter[0].item<float>(), static_cast<float>(rank.rank + 1));
  });
}

}  // namespace
}  // namespace gradsync::test
