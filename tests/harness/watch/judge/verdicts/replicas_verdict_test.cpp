// Verdicts on the replicas of sharded models.
// Covers: steps/group_counts.cpp, steps/reductions.cpp.
#include <gmock/gmock.h>

#include <vector>

#include "harness/watch/judge/verdicts/rules.h"
#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

MadeJob hybrid_job() {
  MadeJob job(0, 4);
  job.wrapper = "fully_shard";
  return job.hybrid_groups();
}

void micro_batch(MadeJob& job, bool with_replicas) {
  job.forward().hybrid(with_replicas);
}

// Steps of micro-batches that synchronize replicas or not.
std::vector<Verdict> verdicts_of(const std::vector<bool>& replicas, MadeJob job = hybrid_job()) {
  return verdicts_on(four_steps(
      [&](MadeJob& j) {
        for (const bool each : replicas) micro_batch(j, each);
        j.optimizer();
      },
      std::move(job)));
}

std::vector<VerdictKind> kinds_of(const std::vector<Verdict>& verdicts) {
  std::vector<VerdictKind> kinds;
  for (const Verdict& verdict : verdicts) kinds.push_back(verdict.kind);
  return kinds;
}

using Kinds = std::vector<VerdictKind>;

TEST(ReplicasVerdict, EveryMicroBatchFailsAndShardsDoNot) {
  const auto verdicts = verdicts_of({true, true, true, true});
  ASSERT_EQ(kinds_of(verdicts),
            (Kinds{VerdictKind::ReplicasMoreThanOnce, VerdictKind::FsdpEveryMicroBatch}));
  expect_often(verdicts[0], 4, 4);
  expect_cause(verdicts[0], Cause::AllReduceFlagNotCalled, 21);  // of the forward
  EXPECT_TRUE(verdicts[0].fails);
  EXPECT_FALSE(verdicts[1].fails);
}

TEST(ReplicasVerdict, SomeMicroBatches) {
  const auto verdicts = verdicts_of({false, true, false, true});
  EXPECT_EQ(verdicts[0].kind, VerdictKind::ReplicasMoreThanOnce);
  expect_often(verdicts[0], 2, 4);
}

TEST(ReplicasVerdict, TheLastAloneIsGood) {
  const auto verdicts = verdicts_of({false, false, false, true});
  EXPECT_EQ(kinds_of(verdicts),
            (Kinds{VerdictKind::FsdpEveryMicroBatch, VerdictKind::ReplicasOncePerStep}));
}

TEST(ReplicasVerdict, OneMicroBatchHasNothingToDefer) {
  EXPECT_EQ(kinds_of(verdicts_of({true})), Kinds{VerdictKind::OncePerStep});
}

TEST(ReplicasVerdict, NeverIsCertainWhereTheFlagWasSeen) {
  MadeJob job = hybrid_job();
  job.flag(false, 17, kAllReduceFlag);
  const auto verdicts = verdicts_of({false, false}, job);
  ASSERT_EQ(verdicts[0].kind, VerdictKind::ReplicasNever);
  expect_cause(verdicts[0], Cause::AllReduceFlagOff, 17);
  EXPECT_TRUE(verdicts[0].fails);
  EXPECT_FALSE(verdicts_of({false, false})[0].fails);
}

TEST(ReplicasVerdict, NeverButAveragedByHandIsNobodysFault) {
  const auto step = [](MadeJob& j) {
    j.times(2, [](MadeJob& k) { micro_batch(k, false); });
    j.collective("all_reduce", 100'000).optimizer();
  };
  EXPECT_EQ(kinds_of(verdicts_on(four_steps(step, hybrid_job()))),
            Kinds{VerdictKind::FsdpEveryMicroBatch});
}

TEST(ReplicasVerdict, StepsThatSynchronizeReplicasNowAndThenAreNotJudged) {
  const auto step = [](MadeJob& j) {
    j.times(2, [](MadeJob& k) { micro_batch(k, false); }).optimizer();
  };
  const MadeJob job = four_steps(step, hybrid_job()).forward().hybrid(true).optimizer();
  EXPECT_EQ(kinds_of(verdicts_on(job)), Kinds{VerdictKind::FsdpEveryMicroBatch});
}

TEST(ReplicasVerdict, TheWrongMicroBatchComesAStepLate) {
  MadeJob job = hybrid_job();
  job.flag(false, 17, kAllReduceFlag);
  const auto verdicts = verdicts_of({true, false, false, false}, job);
  ASSERT_EQ(verdicts[0].kind, VerdictKind::ReplicasTooEarly);
  EXPECT_EQ(verdicts[0].numbers.behind_the_last, 3);
  EXPECT_EQ(verdicts[0].numbers.micro_batches, 4);
  EXPECT_TRUE(verdicts[0].fails);
}

TEST(ReplicasVerdict, AFlagThatIsUndone) {
  const auto step = [](MadeJob& j) {
    j.times(2, [](MadeJob& k) {
      k.flag(false, 17, kAllReduceFlag).flag(true, 18, kGradientFlag);
      micro_batch(k, true);
    });
    j.optimizer();
  };
  const auto verdict = verdicts_on(four_steps(step, hybrid_job()))[0];
  expect_cause(verdict, Cause::AllReduceFlagUndone, 17);
  EXPECT_THAT(verdict.why, HasSubstr(", train.py line 18"));
}

TEST(ReplicasVerdict, AFlagThatIsAlwaysOn) {
  MadeJob job = hybrid_job();
  job.flag(true, 17, kAllReduceFlag);
  const auto verdict = verdicts_of({true, true}, job)[0];
  expect_cause(verdict, Cause::AllReduceFlagOn, 17);
}

TEST(ReplicasVerdict, GroupsThatNobodyToldOfAreNotAccused) {
  MadeJob job(0, 4);
  job.wrapper = "fully_shard";
  const auto verdicts = verdicts_of({true, true}, job);
  EXPECT_EQ(verdicts[0].kind, VerdictKind::ReplicasMoreThanOnce);
  EXPECT_FALSE(verdicts[0].fails);
}

TEST(ReplicasVerdict, OneGenerationOfFsdpCannotHelpIt) {
  MadeJob job(0, 4);
  job.wrapper = "FullyShardedDataParallel";
  const auto verdicts = verdicts_of({true, true}, job.hybrid_groups());
  EXPECT_EQ(verdicts[0].kind, VerdictKind::ReplicasMoreThanOnce);
  EXPECT_FALSE(verdicts[0].fails);
  EXPECT_EQ(verdicts[0].cause, Cause::Fsdp1AllReducesEach);
}

TEST(ReplicasVerdict, AReductionInAWiderTypeIsAMatterOfMemory) {
  const Verdict free_of_charge = verdicts_of({true, true})[0];
  const auto verdicts = verdicts_of({true, true}, hybrid_job().holding({1000, 2000, 4000}));
  EXPECT_EQ(verdicts[0].kind, VerdictKind::ReplicasMoreThanOnce);
  EXPECT_FALSE(verdicts[0].fails);
  EXPECT_EQ(verdicts[0].cause, free_of_charge.cause);
  EXPECT_NE(verdicts[0].change->what, free_of_charge.change->what);
}

// Each unit of a model synchronizes in a micro-batch of its own: a size that does not come again is
// no excess.
TEST(ReplicasVerdict, OtherUnitsInOtherMicroBatches) {
  const auto step = [](MadeJob& j) {
    j.forward().hybrid(true, 1000).forward().hybrid(true, 3000).optimizer();
  };
  EXPECT_EQ(kinds_of(verdicts_on(four_steps(step, hybrid_job()))),
            (Kinds{VerdictKind::FsdpEveryMicroBatch, VerdictKind::ReplicasOncePerStep}));
}

TEST(ReplicasVerdict, ClearedGradientsMayNeedEach) {
  const auto step = [](MadeJob& j) {
    j.forward().hybrid(true).zero_grad(33).forward().hybrid(true).optimizer();
  };
  expect_not_recognised(four_steps(step, hybrid_job()), Cause::GradientsCleared);
}

TEST(ReplicasVerdict, CountsByGroupAddUp) {
  const RankEvents process =
      four_steps(
          [](MadeJob& j) { j.times(4, [](MadeJob& k) { micro_batch(k, true); }).optimizer(); },
          hybrid_job())
          .process();
  const Steps steps = cut_into_steps(process.events);
  const StepCounts counts = count_steps(steps).back();
  ASSERT_THAT(counts.by_group, SizeIs(2));
  OpSums all;
  OpSums excess;
  for (const auto& [group, of_group] : counts.by_group) {
    add(all, of_group.collectives);
    add(excess, of_group.excess);
  }
  EXPECT_EQ(all, counts.collectives);
  EXPECT_EQ(excess, counts.excess);
  EXPECT_EQ(sum_of(excess, "all_reduce"), (OpSum{6, 3000}));
  EXPECT_EQ(sum_of(excess, "reduce_scatter"), (OpSum{6, 6000}));
}

}  // namespace
}  // namespace gradsync::watch
