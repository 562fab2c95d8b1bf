// Jobs whose forwards, backwards and optimizers run within each other.
#include "harness/watch/judge/steps/nesting.h"

#include <gmock/gmock.h>

#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using ::testing::StartsWith;

constexpr std::int64_t kOuterBytes = 3000;
constexpr std::int64_t kInnerBytes = 1000;

// Model 2, within model 1.
MadeJob nested() {
  return MadeJob().wrap(1, "", kOuterBytes).wrap(2, "", kInnerBytes);
}

MadeJob& run_nested(MadeJob& job, const std::string& outer, const std::string& inner) {
  return job.begin_forward(1, outer).inner_forward(2, inner).end();
}

// Three micro-batches under no_sync of model 1 and one without, in each of which model 2 runs so.
// `reduces`: what the backward of the first three does.
template <typename Reduces>
MadeJob with_quiet_outer(const std::string& inner, Reduces reduces) {
  return nested().times(4, [&](MadeJob& job) {
    job.enter_no_sync(1).times(3, [&](MadeJob& j) { reduces(run_nested(j, "no_sync", inner)); });
    run_nested(job.leave_no_sync(1), "", "inside=table").reducing(2, kOuterBytes);
    job.optimizer().zero_grad();
  });
}

TEST(Nesting, NoSyncOfTheOuterModelDoesNotReachTheInnerOne) {
  const Verdict verdict = verdict_on(
      with_quiet_outer("eval inside=table", [](MadeJob& job) { job.reducing(1, kInnerBytes); }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 4, 4);
  expect_cause(verdict, Cause::NoSyncNotInside, 11);
  EXPECT_THAT(verdict.sentence, StartsWith("the DistributedDataParallel inside (table) synchron"));
}

TEST(Nesting, WhereBothAreToldTheyAreGood) {
  expect_good(with_quiet_outer("no_sync inside=table", [](MadeJob& job) { job.backward(); }));
}

TEST(Nesting, AnInnerModelWithoutAGradientSynchronizesNothing) {
  const auto few_bytes = [](MadeJob& job) { job.reducing(1, 64); };
  expect_good(with_quiet_outer("inside=table", few_bytes));
  expect_good(with_quiet_outer("no_grad inside=table", few_bytes));
}

TEST(Nesting, TheOuterModelIsAccusedWhereTheInnerOneAloneIsTold) {
  const MadeJob job = nested().times(4, [](MadeJob& j) {
    j.enter_no_sync(2).times(
        3, [](MadeJob& k) { run_nested(k, "", "no_sync inside=table").reducing(1, kOuterBytes); });
    run_nested(j.leave_no_sync(2), "", "inside=table").reducing(2, kOuterBytes).optimizer();
  });
  const Verdict verdict = verdict_on(job);
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 4, 4);
  expect_cause(verdict, Cause::NoSyncOfAnotherModel, 11);
}

// A loss whose backward runs three forwards and backwards; `told`: all but the last one's.
MadeJob with_cached_loss(const std::string& told) {
  return four_steps([&](MadeJob& job) {
    job.forward(1, "no_grad").backward().begin(EventKind::Backward);
    job.times(2, [&](MadeJob& j) { told.empty() ? synced(j) : unsynced(j); }).times(1, synced);
    job.end().optimizer();
  });
}

TEST(Nesting, WhatALossReplaysIsMicroBatches) {
  const Verdict verdict = verdict_on(with_cached_loss(""));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 3, 3);
  expect_cause(verdict, Cause::NoNoSync, 21);
  EXPECT_TRUE(verdict.numbers.are_replayed);
  expect_good(with_cached_loss("no_sync"));
}

// As under reentrant checkpointing of the whole model.
TEST(Nesting, WhatIsRecomputedWithinAReplayIsAPartOfIt) {
  expect_good(four_steps([](MadeJob& job) {
    job.times(3, [](MadeJob& j) { j.begin(EventKind::Backward).times(1, unsynced).end(); });
    job.forward(1, "no_grad").begin(EventKind::Backward).forward().begin(EventKind::Backward);
    job.forward(2).backward().reducing().end().end().optimizer();
  }));
}

TEST(Nesting, ReplaysBesideAForwardThatWaitsAreNotCounted) {
  expect_not_recognised(four_steps([](MadeJob& job) {
                          job.forward().begin(EventKind::Backward).times(2, synced).end();
                          job.optimizer();
                        }),
                        Cause::ReplayedBeside);
}

TEST(Nesting, UnitsThatAreRecomputedAreNoReplays) {
  MadeJob job;
  job.wrapper = "FullyShardedDataParallel";
  job.reduction = "reduce_scatter";
  expect_good(four_steps(
      [](MadeJob& j) {
        j.forward(1).begin(EventKind::Backward).forward(2).reducing().end().optimizer();
      },
      job));
}

// A codebook: trained by an optimizer of its own in each of four micro-batches.
void train_within(MadeJob& job) {
  job.begin_forward().backward().optimizer().zero_grad().end();
}

TEST(Nesting, AnOptimizerWithinAForwardEndsNoStepOfItsModel) {
  const auto step = [](MadeJob& job) {
    job.times(4, [](MadeJob& j) {
      train_within(j);
      j.reducing();
    });
    job.optimizer();
  };
  const Verdict verdict = verdict_on(four_steps(step));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 4, 4);
}

TEST(Nesting, NorDoesItWithinAClosure) {
  expect_good(four_steps([](MadeJob& job) {
    job.begin(EventKind::OptimizerStep).times(1, train_within).reducing().end();
  }));
}

// As trainers with a manual optimization: there is no backward behind the forward.
TEST(Nesting, AForwardMayRunTheWholeStep) {
  expect_good(four_steps([](MadeJob& job) { job.begin_forward().reducing().optimizer().end(); }));
}

// Model 1's, each of whose layers has an optimizer that steps in backward.
template <typename Within>
Verdict with_steps_in_backward(Within within) {
  return verdict_on(
      four_steps([&](MadeJob& job) { within(job.forward().begin(EventKind::Backward)).end(); }));
}

TEST(Nesting, AnOptimizerThatStepsBeforeTheReductionReadsWhatNobodyReduced) {
  const Verdict verdict = with_steps_in_backward([](MadeJob& job) -> MadeJob& {
    return job.optimizer("of=1").collective("all_reduce", 1000).optimizer("of=1");
  });
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::StepsBeforeReduction, 81);
}

// As on gloo, where a reduction is known to have ended once somebody looks.
TEST(Nesting, TheReductionMayEndBehindBackward) {
  RankEvents process = four_steps([](MadeJob& job) {
                         job.forward().begin(EventKind::Backward).optimizer("of=1");
                         job.collective("all_reduce", 1000).end();
                       }).process();
  for (Event& event : process.events) {
    if (event.name == "all_reduce") event.end_ns += 20 * gradsync::test::kMillisecond;
  }
  const Steps steps = cut_into_steps(process.events);
  EXPECT_EQ(judge(process, steps, count_steps(steps)).front().cause, Cause::StepsBeforeReduction);
}

TEST(Nesting, BehindTheReductionOrOfAnotherModelItMayStepInBackward) {
  const Verdict behind = with_steps_in_backward([](MadeJob& job) -> MadeJob& {
    return job.collective("all_reduce", 1000).optimizer("of=1").collective("all_reduce", 1000);
  });
  EXPECT_EQ(behind.kind, VerdictKind::OncePerStep);
  const Verdict other = with_steps_in_backward([](MadeJob& job) -> MadeJob& {
    return job.optimizer("of=2").collective("all_reduce", 1000);
  });
  EXPECT_EQ(other.kind, VerdictKind::OncePerStep);
}

}  // namespace
}  // namespace gradsync::watch
