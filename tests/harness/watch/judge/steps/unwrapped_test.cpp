#include "harness/watch/judge/steps/unwrapped.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::MadeJob;

constexpr std::int64_t kReached = 100'000;

// How many collectives reduced the gradients of each micro-batch of the last step of four.
template <typename Step>
std::vector<std::size_t> reductions_of_last(Step step, MadeJob job = MadeJob()) {
  job.times(4, step);
  const RankEvents process = job.process();
  const Steps steps = cut_into_steps(process.events);
  std::vector<std::size_t> counts;
  for (const MicroBatch& micro_batch : steps.steps.back().micro_batches) {
    counts.push_back(micro_batch.of_gradients.size());
  }
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(Unwrapped, ReductionsCountForTheBackwardBeforeThem) {
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).backward_of(kReached, kReached);
              j.collective("all_reduce", 60'000).collective("all_reduce", 40'000).optimizer();
            }),
            (Counts{0, 2}));
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).collective("reduce_scatter", kReached);
              j.backward_of(kReached).collective("reduce_scatter", kReached).optimizer();
            }),
            (Counts{1, 1}));
}

TEST(Unwrapped, ReductionsWithinBackwardCount) {
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.reducing(2, kReached / 2);
              j.events()[j.events().size() - 3].bytes = kReached;
              j.optimizer();
            }),
            (Counts{2}));
}

TEST(Unwrapped, GradientsMayTravelInAnotherType) {
  EXPECT_TRUE(may_be_gradients(kReached, kReached));
  EXPECT_TRUE(may_be_gradients(kReached / 2, kReached));
  EXPECT_TRUE(may_be_gradients(2 * kReached, kReached));
  EXPECT_FALSE(may_be_gradients(kReached / 4, kReached));
  EXPECT_FALSE(may_be_gradients(3 * kReached / 2, kReached));
  EXPECT_FALSE(may_be_gradients(0, kReached));
  EXPECT_FALSE(may_be_gradients(kReached, 0));
}

TEST(Unwrapped, PaddingAndALoggedLossMayComeOnTop) {
  EXPECT_TRUE(may_be_gradients(kReached + 4096, kReached));
  EXPECT_FALSE(may_be_gradients(kReached + 4097, kReached));
  EXPECT_TRUE(may_be_gradients(1020, 1000));
  EXPECT_TRUE(may_be_gradients(1250, 1000));
  EXPECT_FALSE(may_be_gradients(1251, 1000));
  EXPECT_FALSE(may_be_gradients(979, 1000));
}

TEST(Unwrapped, TheOptimizersGradientsAreReduced) {
  // Two losses have heads of their own; and one model's backward reaches a second model.
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).backward_of(kReached / 2);
              j.collective("all_reduce", 170'000).optimizer("gradients=170000");
            }),
            (Counts{0, 1}));
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).collective("all_reduce", 10'000);
              j.optimizer("gradients=10000");
            }),
            (Counts{1}));
}

// A step that reduces in its forward, and its gradients behind backward.
void step_in_groups(MadeJob& j, std::int64_t before_bytes, std::int64_t before_group,
                    std::int64_t behind_group) {
  j.collective("all_reduce", before_bytes);
  j.events().back().object = before_group;
  j.backward_of(kReached).collective("all_reduce", kReached);
  j.events().back().object = behind_group;
  j.optimizer();
}

TEST(Unwrapped, WhatReducesInForwardAsWellIsOfActivations) {
  const auto step = [](std::int64_t bytes, std::int64_t group) {
    return [=](MadeJob& j) { step_in_groups(j, bytes, group, 1); };
  };
  EXPECT_EQ(reductions_of_last(step(kReached / 10, 1)), Counts{0});
  EXPECT_EQ(reductions_of_last(step(kReached / 11, 1)), Counts{1});
  EXPECT_EQ(reductions_of_last(step(kReached, 2)), Counts{1});
}

TEST(Unwrapped, GroupsAreToldApart) {
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).collective("all_reduce", kReached);
              j.events().back().object = 1;
              j.collective("all_reduce", 7 * kReached);
              j.events().back().object = 2;
              j.optimizer();
            }),
            Counts{1});
  // Experts and the rest, each in a group of its own.
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.backward_of(kReached).collective("all_reduce", 30'000);
              j.events().back().object = 1;
              j.collective("all_reduce", 70'000);
              j.events().back().object = 2;
              j.optimizer();
            }),
            Counts{2});
}

TEST(Unwrapped, OthersAreNoReductionsOfGradients) {
  const auto step = [](const char* op, std::int64_t bytes) {
    return [=](MadeJob& j) { j.backward_of(kReached).collective(op, bytes).optimizer(); };
  };
  EXPECT_EQ(reductions_of_last(step("all_gather", kReached)), Counts{0});
  EXPECT_EQ(reductions_of_last(step("all_reduce", 4)), Counts{0});
  EXPECT_EQ(reductions_of_last(step("all_reduce", -1)), Counts{0});
}

TEST(Unwrapped, AWrapperTellsByItself) {
  EXPECT_EQ(reductions_of_last([](MadeJob& j) {
              j.forward().backward_of(kReached).collective("all_reduce", kReached).optimizer();
            }),
            Counts{0});
}

}  // namespace
}  // namespace gradsync::watch
