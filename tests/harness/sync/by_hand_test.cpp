// The steps on the road to DDP that hold replicas: against one process on the whole batch, against
// what they declare, and what becomes of replicas that never talk.
#include "harness/sync/by_hand.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "harness/run/expectation.h"
#include "harness/run/trained_parameters.h"
#include "harness/sync/backward.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using sync::ByHand;
using sync::Reduction;

// The mean over all micro-batches of the ranks' gradients, as one process has it.
std::vector<at::Tensor> gradients_of_one_process(int world_size, int micro_batches,
                                                 bool branch = true) {
  ToyModel model;
  for (int rank = 0; rank < world_size; ++rank) {
    for (int i = 0; i < micro_batches; ++i) {
      const at::Tensor loss = model.loss(toy_batch(rank, i, branch || rank == 0));
      sync::backward(loss, world_size * micro_batches, nullptr);
    }
  }
  return gradients_held_by(model);
}

class ByHandReductions : public ::testing::TestWithParam<Reduction> {};

TEST_P(ByHandReductions, GradientsAreThoseOfOneProcess) {
  for (const int world_size : {2, 3}) {
    const auto wanted = gradients_of_one_process(world_size, 1);
    run_ranks(world_size, [&](RankHarness& rank) {
      ByHand model(std::make_shared<ToyModel>(), rank.group, GetParam(), &rank.recorder);
      sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, &rank.recorder);
      expect_gradients(model, wanted);
    });
  }
}

// The first micro-batch's gradients are the ranks' mean when the second one's are added to them.
TEST_P(ByHandReductions, AccumulatedGradientsAreThoseOfOneProcess) {
  const auto wanted = gradients_of_one_process(2, 2);
  run_ranks(2, [&](RankHarness& rank) {
    for (const bool sync_first : {true, false}) {
      ByHand model(std::make_shared<ToyModel>(), rank.group, GetParam(), nullptr);
      const at::Tensor first = model.forward(toy_batch(rank.rank, 0));
      if (sync_first) {
        sync::backward(first, 2, nullptr);
      } else {
        const auto guard = model.no_sync();  // around backward alone: early enough here
        sync::backward(first, 2, nullptr);
      }
      sync::backward(model.forward(toy_batch(rank.rank, 1)), 2, nullptr);
      expect_gradients(model, wanted);
    }
  });
}

TEST_P(ByHandReductions, AParameterThatOneRankDoesNotUseCountsAsZerosThere) {
  const auto wanted = gradients_of_one_process(2, 1, false);
  run_ranks(2, [&](RankHarness& rank) {
    ByHand model(std::make_shared<ToyModel>(), rank.group, GetParam(), nullptr);
    sync::backward(model.forward(toy_batch(rank.rank, 0, rank.rank == 0)), 1, nullptr);
    expect_gradients(model, wanted);
  });
}

// All that a step of two micro-batches sent, the first of which is inside no_sync.
TEST_P(ByHandReductions, CommunicateWhatTheyDeclareAndNothingBeforeBackwardHasEnded) {
  run_ranks(2, [&](RankHarness& rank) {
    ByHand model(std::make_shared<ToyModel>(), rank.group, GetParam(), &rank.recorder);
    rank.ledger.settle(kTimeoutS);
    rank.ledger.clear();
    rank.recorder.begin_block();
    for (int i = 0; i < 2; ++i) {
      rank.ledger.set_place(0, i);
      rank.recorder.begin_micro_batch(i);
      std::optional<sync::NoSyncGuard> guard;
      if (i == 0) guard.emplace(model);
      sync::backward(model.forward(toy_batch(rank.rank, i)), 1, &rank.recorder);
    }
    rank.recorder.end_step();
    rank.ledger.settle(kTimeoutS);
    const auto events = rank.ledger.events();
    EXPECT_EQ(run::first_mismatch(model.declared({false, true}), events, 0), "");
    EXPECT_EQ(events.size(), GetParam() == Reduction::Coalesced ? 1U : 3U);
    // All events of the second micro-batch lie in its wait.
    const auto& intervals = rank.recorder.steps().front().intervals;
    for (const comm::CommEvent& event : events) {
      for (const measure::PhaseInterval& interval : intervals) {
        if (interval.phase == measure::Phase::Wait) continue;
        EXPECT_TRUE(event.start_ns >= interval.end_ns || event.start_ns <= interval.start_ns);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ByHandReductions,
                         ::testing::Values(Reduction::PerParameter, Reduction::Coalesced));

TEST(ByHand, StartsEveryRankFromRankZero) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = std::make_shared<ToyModel>(rank.rank == 0 ? 0.5 : 0.25);
    const ByHand model(module, rank.group, Reduction::None, nullptr);
    EXPECT_EQ(module->w1[0][0].item<float>(), 0.5F);
  });
}

TEST(ByHand, WithoutReductionEveryRankHasItsOwnGradients) {
  run_ranks(2, [](RankHarness& rank) {
    ByHand model(std::make_shared<ToyModel>(), rank.group, Reduction::None, nullptr);
    rank.ledger.settle(kTimeoutS);
    rank.ledger.clear();
    rank.ledger.set_place(0, 0);
    sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
    EXPECT_TRUE(rank.ledger.events().empty());
    EXPECT_TRUE(model.declared({true})[0].empty());
    ToyModel alone;
    sync::backward(alone.loss(toy_batch(rank.rank, 0)), 1, nullptr);
    expect_gradients(model, {alone.w1.grad(), alone.w2.grad(), alone.branch.grad()});
  });
}

TEST(ParameterDistance, IsThatOfTheWholeVectorsRelativeToRankZeros) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = std::make_shared<ToyModel>(0.5);
    const ByHand model(module, rank.group, Reduction::None, nullptr);
    EXPECT_EQ(run::parameter_distance(model, *rank.group), 0);
    if (rank.rank == 1) {
      const at::NoGradGuard no_grad;
      module->w1.sub_(0.5);  // 32 of 48 elements: apart by their whole length
    }
    EXPECT_DOUBLE_EQ(run::parameter_distance(model, *rank.group),
                     rank.rank == 0 ? 0 : std::sqrt(32.0 / 48));
    run::start_alike(model, *rank.group);
    EXPECT_EQ(run::parameter_distance(model, *rank.group), 0);
    EXPECT_EQ(module->w1[0][0].item<float>(), 0.5F);
  });
}

}  // namespace
}  // namespace gradsync::test
