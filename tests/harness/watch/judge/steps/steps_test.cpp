// Covers: judge/steps/counts.cpp, judge/steps/quiet.cpp, event.cpp.
#include "harness/watch/judge/steps/steps.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/steps/counts.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kMillisecond;
using gradsync::test::kWaitMs;
using gradsync::test::MadeJob;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const OpSum kTwoBuckets{2, 2 * kBucketBytes};

// A process whose steps and counts stay where they are.
struct Cut {
  explicit Cut(const MadeJob& job)
      : process(job.process()), steps(cut_into_steps(process.events)), counts(count_steps(steps)) {}
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  RankEvents process;
  Steps steps;
  std::vector<StepCounts> counts;
};

void synced_batch(MadeJob& job) {
  job.forward().reducing();
}

void proper_step(MadeJob& job) {
  job.enter_no_sync();
  job.times(3, [](MadeJob& j) { j.forward(1, "no_sync").backward(); });
  job.leave_no_sync();
  job.forward().reducing().optimizer().zero_grad();
}

TEST(Steps, AStepIsItsMicroBatches) {
  const Cut job(MadeJob().wrap().times(
      2, [](MadeJob& j) { j.times(4, synced_batch).optimizer().zero_grad(); }));
  ASSERT_THAT(job.steps.steps, SizeIs(2));
  for (const StepCounts& step : job.counts) {
    EXPECT_EQ(step.micro_batches, 4);
    EXPECT_EQ(step.synchronized, 4);
    EXPECT_THAT(step.collectives, ElementsAre(Pair("all_reduce", OpSum{8, 8 * kBucketBytes})));
    EXPECT_THAT(step.excess, ElementsAre(Pair("all_reduce", OpSum{6, 6 * kBucketBytes})));
    EXPECT_EQ(step.excess_ns, 3 * kWaitMs * kMillisecond);
    EXPECT_THAT(step.step->clearings, IsEmpty());
  }
  EXPECT_THAT(job.steps.set_up, SizeIs(1));
  EXPECT_THAT(job.steps.closing, IsEmpty());
}

TEST(Steps, OneSynchronizationIsEnoughAndNoExcess) {
  const Cut job(MadeJob().times(3, proper_step));
  ASSERT_THAT(job.counts, SizeIs(3));
  for (const StepCounts& step : job.counts) {
    EXPECT_EQ(step.micro_batches, 4);
    EXPECT_EQ(step.synchronized, 1);
    EXPECT_THAT(step.excess, IsEmpty());
    EXPECT_EQ(step.excess_ns, 0);
  }
}

TEST(Steps, LastFromTheEndOfTheOptimizerBefore) {
  const Cut job(MadeJob().times(2, [](MadeJob& j) { j.forward().reducing().optimizer(); }));
  ASSERT_THAT(job.steps.steps, SizeIs(2));
  EXPECT_EQ(job.steps.steps[1].start_ns, job.steps.steps[0].end_ns);
  // 1 ms, 10 ms, 1 ms, 50 ms, 1 ms, 5 ms.
  EXPECT_EQ(job.steps.steps[1].end_ns - job.steps.steps[1].start_ns, 68 * kMillisecond);
}

TEST(Steps, TwoOptimizersThatStepTogetherAreOneStep) {
  const Cut job(
      MadeJob().times(3, [](MadeJob& j) { j.times(2, synced_batch).optimizer().optimizer(); }));
  ASSERT_THAT(job.steps.steps, SizeIs(3));
  for (const Step& step : job.steps.steps) EXPECT_THAT(step.optimizers, SizeIs(2));
  EXPECT_EQ(job.counts[1].micro_batches, 2);
}

TEST(Steps, ForwardsWithoutAGradientAreEvaluation) {
  const Cut job(MadeJob()
                    .times(2, synced_batch)
                    .optimizer()
                    .times(5, [](MadeJob& j) { j.forward_with_buffers(1, "no_grad eval"); })
                    .times(2, synced_batch)
                    .optimizer());
  ASSERT_THAT(job.counts, SizeIs(2));
  EXPECT_EQ(job.counts[1].micro_batches, 2);
  EXPECT_EQ(job.counts[1].micro_batches_with_broadcasts, 0);
  EXPECT_EQ(job.steps.steps[1].evaluation_forwards, 5);
  EXPECT_THAT(job.steps.steps[1].in_evaluation, SizeIs(5));
  EXPECT_EQ(job.counts[1].collectives.at("broadcast").count, 5);
}

TEST(Steps, ForwardsThatNoBackwardFollowsAreEvaluationToo) {
  const Cut job(MadeJob().times(2, synced_batch).optimizer().forward_with_buffers().forward());
  ASSERT_THAT(job.steps.steps, SizeIs(2));
  EXPECT_FALSE(job.steps.steps[1].is_complete);
  EXPECT_EQ(job.steps.steps[1].evaluation_forwards, 2);
  EXPECT_THAT(job.steps.steps[1].in_evaluation, SizeIs(1));
  EXPECT_THAT(job.counts, SizeIs(1));
}

TEST(Steps, SeveralForwardsBeforeABackwardAreOneMicroBatch) {
  const Cut job(MadeJob().forward(1).forward(1).forward(2).reducing().backward().optimizer());
  ASSERT_THAT(job.counts, SizeIs(1));
  EXPECT_EQ(job.counts[0].micro_batches, 1);
  EXPECT_EQ(job.counts[0].synchronized, 1);
}

TEST(Steps, GradientsOfGradientsAreNoMicroBatch) {
  MadeJob job;
  job.forward();
  job.begin(EventKind::Backward).end();
  RankEvents process = job.forward().reducing().optimizer().process();
  const Steps before = cut_into_steps(process.events);
  EXPECT_THAT(before.steps.at(0).micro_batches, SizeIs(2));
  process.events[1].detail = "0";  // torch.autograd.grad
  const Steps after = cut_into_steps(process.events);
  EXPECT_THAT(after.steps.at(0).micro_batches, SizeIs(1));
}

TEST(Steps, WhatRunsInsideBackwardBelongsToIt) {
  MadeJob job;
  job.forward().begin(EventKind::Backward).forward().backward();
  job.collective("all_reduce", kBucketBytes).end().optimizer();
  const Cut cut(job);
  ASSERT_THAT(cut.counts, SizeIs(1));
  EXPECT_EQ(cut.counts[0].micro_batches, 1);
  EXPECT_EQ(cut.counts[0].synchronized, 1);
}

TEST(Steps, ASkippedStepEndsAStep) {
  const Cut job(
      MadeJob().forward().reducing().optimizer("skipped").forward().reducing().optimizer());
  ASSERT_THAT(job.counts, SizeIs(2));
  EXPECT_TRUE(job.counts[0].step->is_skipped);
  EXPECT_FALSE(job.counts[1].step->is_skipped);
  EXPECT_EQ(job.counts[1].micro_batches, 1);
}

TEST(Steps, AnOptimizerThatRunsTheModelItselfIsSeen) {
  MadeJob job;
  job.begin(EventKind::OptimizerStep).times(3, synced_batch).end();
  const Cut cut(job);
  ASSERT_THAT(cut.counts, SizeIs(1));
  EXPECT_TRUE(cut.counts[0].step->repeats_closure);
  EXPECT_EQ(cut.counts[0].micro_batches, 3);
}

TEST(Steps, WhatAnOptimizerRunsByItselfIsNotItsOwnTime) {
  MadeJob job;
  job.begin(EventKind::OptimizerStep).forward().reducing().end();
  const Cut cut(job);
  ASSERT_THAT(cut.counts, SizeIs(1));
  EXPECT_FALSE(cut.counts[0].step->repeats_closure);
  EXPECT_LT(cut.counts[0].optimizer_s(), 0.005);
  EXPECT_GT(cut.counts[0].duration_s(), 0.050);
}

// All micro-batches of a step run within it, as Composer has them.
TEST(Steps, AClosureThatIsKnownToRunOnceIsPlain) {
  for (const auto& [words, repeats] :
       std::vector<std::pair<std::string, bool>>{{"closures=1", false}, {"closures=3", true}}) {
    MadeJob job;
    job.begin(EventKind::OptimizerStep).times(3, synced_batch).end();
    for (Event& event : job.events()) {
      if (event.kind == EventKind::OptimizerStep) event.detail = words;
    }
    const Cut cut(job);
    EXPECT_EQ(cut.counts.at(0).step->repeats_closure, repeats);
    EXPECT_EQ(cut.counts[0].micro_batches, 3);
  }
}

// fastai's optimizers are none of torch's.
TEST(Steps, WithoutAnOptimizerAChangeOfParametersEndsAStep) {
  const auto by_hand = [](MadeJob& job) { job.times(2, synced_batch).use_gradients(kParameters); };
  const Cut cut(MadeJob().times(3, by_hand));
  ASSERT_THAT(cut.counts, SizeIs(3));
  EXPECT_EQ(cut.counts[2].micro_batches, 2);
  const Cut with_optimizer(MadeJob().times(3, by_hand).optimizer());
  ASSERT_THAT(with_optimizer.counts, SizeIs(1));
  EXPECT_EQ(with_optimizer.counts[0].micro_batches, 6);
}

TEST(Steps, OptimizersInsideBackwardEndAStep) {
  MadeJob job;
  job.times(2, [](MadeJob& j) {
    j.forward().begin(EventKind::Backward).collective("all_reduce", 8);
    j.optimizer().collective("all_reduce", 8).optimizer().end();
  });
  const Cut cut(job);
  ASSERT_THAT(cut.counts, SizeIs(2));
  for (const StepCounts& step : cut.counts) {
    EXPECT_EQ(step.micro_batches, 1);
    EXPECT_EQ(step.collectives.at("all_reduce").count, 2);
    EXPECT_EQ(step.step->in_closure, nullptr);
  }
}

TEST(Steps, OnlyAClearingBetweenMicroBatchesCounts) {
  const Cut usual(MadeJob().times(2, [](MadeJob& j) {
    j.zero_grad().forward().zero_grad().reducing().zero_grad().optimizer().zero_grad();
  }));
  for (const StepCounts& step : usual.counts) EXPECT_THAT(step.step->clearings, IsEmpty());
  const Cut between(MadeJob().forward().reducing().zero_grad(33).forward().reducing().optimizer());
  ASSERT_THAT(between.steps.steps.at(0).clearings, SizeIs(1));
  EXPECT_EQ(between.steps.steps[0].clearings[0]->line, 33);
}

TEST(Steps, ForwardKnowsWhichNoSyncWasOpen) {
  const Cut job(MadeJob()
                    .enter_no_sync(1, 11)
                    .forward()
                    .leave_no_sync()
                    .enter_no_sync(1, 12)
                    .backward()
                    .leave_no_sync()
                    .forward()
                    .reducing()
                    .optimizer());
  const auto& micro_batches = job.steps.steps.at(0).micro_batches;
  ASSERT_THAT(micro_batches, SizeIs(2));
  EXPECT_EQ(micro_batches[0].no_sync_at_forward->line, 11);
  EXPECT_EQ(micro_batches[0].no_sync_at_backward->line, 12);
  EXPECT_TRUE(micro_batches[0].is_unsynced);
  EXPECT_EQ(micro_batches[1].no_sync_at_forward, nullptr);
  EXPECT_EQ(micro_batches[1].no_sync_at_backward, nullptr);
  EXPECT_FALSE(micro_batches[1].is_unsynced);
}

TEST(Steps, ANoSyncOfAnotherModelDoesNotHoldTheForward) {
  const Cut job(MadeJob().enter_no_sync(2).forward(1).reducing().leave_no_sync(2).optimizer());
  const MicroBatch& micro_batch = job.steps.steps.at(0).micro_batches.at(0);
  EXPECT_FALSE(micro_batch.is_unsynced);
  ASSERT_NE(micro_batch.no_sync_at_forward, nullptr);
}

TEST(Steps, CollectivesBesideForwardAndBackwardAreTheStepsOrTheSetUps) {
  const Cut job(MadeJob()
                    .collective("broadcast", 10)
                    .forward()
                    .collective("all_reduce", 20)
                    .reducing()
                    .collective("all_reduce", 30)
                    .optimizer()
                    .collective("barrier", 0));
  EXPECT_THAT(job.steps.set_up, SizeIs(1));
  ASSERT_THAT(job.steps.steps, SizeIs(1));
  EXPECT_THAT(job.steps.steps[0].outside, SizeIs(2));
  EXPECT_THAT(job.steps.closing, SizeIs(1));
  EXPECT_EQ(job.counts[0].collectives.at("all_reduce"), (OpSum{4, 2 * kBucketBytes + 50}));
}

TEST(Counts, TwoModelsThatSynchronizeOnceEachHaveNoExcess) {
  const Cut job(MadeJob().forward(1).reducing().forward(2).reducing().optimizer());
  ASSERT_THAT(job.counts, SizeIs(1));
  EXPECT_EQ(job.counts[0].micro_batches, 1);
  EXPECT_EQ(job.counts[0].synchronized, 1);
  EXPECT_THAT(job.counts[0].excess, IsEmpty());
}

TEST(Counts, OfTwoModelsTheOneThatSynchronizesMostCounts) {
  const Cut job(
      MadeJob().forward(1).reducing().forward(2).reducing().forward(2).reducing().optimizer());
  EXPECT_EQ(job.counts[0].synchronized, 2);
  EXPECT_THAT(job.counts[0].excess, ElementsAre(Pair("all_reduce", kTwoBuckets)));
}

TEST(Counts, WhatRunsUnderNoSyncAsWellIsNoGradient) {
  // A layer that reduces statistics in each backward, as SyncBatchNorm does.
  const auto step = [](MadeJob& j) {
    j.times(3, [](MadeJob& k) { k.forward(1, "no_sync").reducing(1, 16); });
    j.forward().reducing(3).optimizer();
  };
  const Cut job(MadeJob().times(2, step));
  EXPECT_EQ(job.counts[1].synchronized, 1);
  EXPECT_THAT(job.counts[1].excess, IsEmpty());
  const Cut never(MadeJob().times(4, [](MadeJob& j) {
    j.times(2, [](MadeJob& k) { k.forward(1, "no_sync").reducing(1, 16); }).optimizer();
  }));
  EXPECT_EQ(never.counts[1].synchronized, 0);
}

TEST(Counts, WithoutTheHookSizesTellWhatIsNoGradient) {
  const auto step = [](MadeJob& j) {
    j.times(3, [](MadeJob& k) { k.forward(0).reducing(1, 16); });
    j.forward(0).reducing(3).optimizer();
  };
  const Cut job(MadeJob().times(2, step));
  EXPECT_EQ(job.counts[1].synchronized, 1);
  EXPECT_FALSE(job.counts[1].models_are_known);
}

TEST(Counts, BuffersBeyondTheFirstBroadcastAreExcess) {
  const Cut job(MadeJob().times(2, [](MadeJob& j) {
    j.times(4, [](MadeJob& k) { k.forward_with_buffers().reducing(); }).optimizer();
  }));
  EXPECT_EQ(job.counts[1].micro_batches_with_broadcasts, 4);
  EXPECT_EQ(job.counts[1].excess.at("broadcast"), (OpSum{3, 3 * 64}));
  EXPECT_EQ(job.counts[1].excess_ns, 3 * (kWaitMs + 2) * kMillisecond);
}

TEST(Counts, GatheringParametersIsNoReduction) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  job.flag(false).forward().begin(EventKind::Backward).collective("all_gather", 500).end();
  job.flag(true).forward().reducing().optimizer();
  const Cut cut(job);
  EXPECT_TRUE(cut.counts[0].has_shards);
  EXPECT_EQ(cut.counts[0].micro_batches, 2);
  EXPECT_EQ(cut.counts[0].synchronized, 1);
  EXPECT_EQ(cut.counts[0].collectives.at("all_gather").count, 1);
}

TEST(Counts, TimesThatNobodySawAreNotZero) {
  MadeJob job;
  job.ends_are_known = false;
  const Cut cut(job.times(2, synced_batch).optimizer());
  EXPECT_EQ(cut.counts[0].synchronized, 2);
  EXPECT_EQ(cut.counts[0].excess_ns, std::nullopt);
}

// Waits of a step of two micro-batches under FSDP, whose two collectives of 5 ms come so far apart.
std::optional<std::int64_t> excess_ns_of_fsdp(std::int64_t apart_ms) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  RankEvents process = job.times(2, synced_batch).optimizer().process();
  Event* before = nullptr;
  for (Event& event : process.events) {
    if (event.kind != EventKind::Collective) continue;
    if (before != nullptr) event.start_ns = before->start_ns + apart_ms * kMillisecond;
    event.end_ns = event.start_ns + 5 * kMillisecond;
    before = before == nullptr ? &event : nullptr;
  }
  const Steps steps = cut_into_steps(process.events);
  return count_steps(steps).at(0).excess_ns;
}

// On the host it waits for each; where they overlap, for the last one.
TEST(Counts, FsdpThatReducesOneByOneWaitsForAll) {
  EXPECT_EQ(excess_ns_of_fsdp(1), 5 * kMillisecond);
  EXPECT_EQ(excess_ns_of_fsdp(6), 2 * 5 * kMillisecond);
}

TEST(OpSums, AnUnknownSizeMakesTheSumUnknown) {
  Event known;
  known.name = "all_reduce";
  known.bytes = 4;
  Event unknown = known;
  unknown.bytes = -1;
  OpSums sums;
  add(sums, known);
  EXPECT_EQ(total_bytes(sums), 4);
  add(sums, unknown);
  EXPECT_EQ(sums.at("all_reduce"), (OpSum{2, std::nullopt}));
  EXPECT_EQ(total_bytes(sums), std::nullopt);
  EXPECT_EQ(total_count(sums), 2);
}

TEST(OpSums, WhatIsLeftWithoutAPart) {
  const OpSums all{{"all_reduce", {4, 40}}, {"broadcast", {1, 8}}};
  EXPECT_EQ(without(all, {{"all_reduce", {3, 30}}, {"broadcast", {1, 8}}}),
            (OpSums{{"all_reduce", {1, 10}}}));
}

TEST(HasWord, IsTheWholeWord) {
  Event event;
  event.detail = "no_grad eval";
  EXPECT_TRUE(has_word(event, "no_grad"));
  EXPECT_TRUE(has_word(event, "eval"));
  EXPECT_FALSE(has_word(event, "grad"));
  EXPECT_FALSE(has_word(event, "no"));
}

}  // namespace
}  // namespace gradsync::watch
