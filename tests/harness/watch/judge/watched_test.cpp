#include "harness/watch/judge/watched.h"

#include <gmock/gmock.h>

#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/watched_files.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kMillisecond;
using gradsync::test::kWaitMs;
using gradsync::test::MadeJob;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;

RankEvents improper_rank(int rank) {
  return gradsync::test::improper_job(rank).process();
}

// The rank, whose collectives take `milliseconds` more.
RankEvents later(RankEvents process, std::int64_t milliseconds) {
  for (Event& event : process.events) {
    if (event.kind == EventKind::Collective) event.end_ns += milliseconds * kMillisecond;
  }
  return process;
}

TEST(Summarize, CountsTheTypicalStepAndWhatOfItIsExcess) {
  const Watched watched = summarize({improper_rank(1), improper_rank(0)});
  EXPECT_EQ(watched.world_size, 2);
  EXPECT_THAT(watched.wrappers, ElementsAre("DistributedDataParallel"));
  ASSERT_THAT(watched.ranks, SizeIs(2));
  EXPECT_EQ(watched.ranks[0].rank, 0);
  EXPECT_EQ(watched.ranks[0].steps, 6);
  // One broadcast of the set-up, and 8 all_reduces in each of 6 steps.
  EXPECT_EQ(watched.ranks[1].collectives.at("broadcast").count, 1);
  EXPECT_EQ(watched.ranks[1].collectives.at("all_reduce"), (OpSum{48, 48 * kBucketBytes}));
  ASSERT_TRUE(watched.typical.has_value());
  EXPECT_EQ(watched.typical->micro_batches, 4);
  EXPECT_EQ(watched.typical->synchronized, 4);
  EXPECT_EQ(watched.typical->steps, 5);
  EXPECT_EQ(watched.typical->collectives.at("all_reduce"), (OpSum{8, 8 * kBucketBytes}));
  EXPECT_EQ(watched.typical->ideal.at("all_reduce"), (OpSum{2, 2 * kBucketBytes}));
  EXPECT_EQ(watched.typical->excess.at("all_reduce"), (OpSum{6, 6 * kBucketBytes}));
  EXPECT_THAT(watched.typical->excess_s, Optional(DoubleEq(3 * kWaitMs * 1e-3)));
  EXPECT_THAT(watched.faults, IsEmpty());
  EXPECT_TRUE(has_excess(watched));
}

TEST(Summarize, TheRankThatWaitsForTheWireAloneTellsTheExcess) {
  for (const int late : {0, 1}) {
    const Watched watched = summarize(
        {later(improper_rank(0), late == 0 ? 0 : 20), later(improper_rank(1), late == 0 ? 20 : 0)});
    EXPECT_THAT(watched.typical->excess_s, Optional(DoubleEq(3 * kWaitMs * 1e-3)));
  }
}

TEST(Summarize, RanksOfOtherStepsAreNotCompared) {
  RankEvents shorter = improper_rank(1);
  shorter.events.resize(shorter.events.size() - 2);  // without its last optimizer step
  const Watched watched = summarize({later(improper_rank(0), 20), shorter});
  EXPECT_THAT(watched.typical->excess_s, Optional(DoubleEq(3 * (kWaitMs + 20) * 1e-3)));
}

TEST(Summarize, RanksThatDisagreeAreNotRecognised) {
  const Watched watched = summarize({improper_rank(0), gradsync::test::proper_job(1).process()});
  ASSERT_THAT(watched.verdicts, SizeIs(1));
  EXPECT_EQ(watched.verdicts[0].kind, VerdictKind::NotRecognised);
  EXPECT_EQ(watched.verdicts[0].cause, Cause::RanksDisagree);
  test::expect_phrases("watch/judge", {watched.verdicts[0].why});
  EXPECT_FALSE(has_excess(watched));
}

TEST(Summarize, WhereNothingIsRecognisedNoNumberAccuses) {
  const Watched watched = summarize(
      {gradsync::test::cleared_job(0).process(), gradsync::test::cleared_job(1).process()});
  EXPECT_EQ(watched.verdicts[0].kind, VerdictKind::NotRecognised);
  EXPECT_THAT(watched.typical->excess, IsEmpty());
  EXPECT_EQ(watched.typical->ideal, watched.typical->collectives);
  EXPECT_FALSE(watched.typical->excess_s);
}

TEST(Summarize, ProcessesThatDidNothingAreLeftOut) {
  RankEvents launcher;
  launcher.pid = 7;
  RankEvents helper;  // it ran something, but has no rank
  helper.events = MadeJob(-1, 0).forward().process().events;
  const Watched watched = summarize({launcher, helper, improper_rank(0), improper_rank(1)});
  EXPECT_THAT(watched.ranks, SizeIs(2));
  EXPECT_EQ(watched.verdicts[0].kind, VerdictKind::MoreThanOnce);
}

TEST(Summarize, ARestartedRankCountsOnce) {
  RankEvents first = MadeJob(0).wrap().forward().process();
  const Watched watched = summarize({first, improper_rank(0), improper_rank(1)});
  ASSERT_THAT(watched.ranks, SizeIs(2));
  EXPECT_EQ(watched.ranks[0].steps, 6);
}

TEST(Summarize, RanksThatWereNotSeenAreTold) {
  RankEvents rank = improper_rank(0);
  rank.world_size = 4;
  rank.faults = {"the disk is full"};
  RankEvents other = improper_rank(1);
  other.world_size = 4;
  other.faults = rank.faults;
  const Watched watched = summarize({rank, other});
  ASSERT_THAT(watched.faults, SizeIs(2));
  EXPECT_THAT(watched.faults[0], HasSubstr("2 of 4 ranks were seen"));
  EXPECT_EQ(watched.faults[1], "the disk is full");
}

TEST(Summarize, OfNothingThereIsAVerdictToo) {
  const Watched watched = summarize({});
  ASSERT_THAT(watched.verdicts, SizeIs(1));
  EXPECT_EQ(watched.verdicts[0].cause, Cause::NoTorch);
  EXPECT_FALSE(has_excess(watched));
  EXPECT_TRUE(watch_json(watched)["per_step"].is_null());
}

// Two ranks of the same steps.
template <typename Step>
TypicalStep typical_of(Step step) {
  std::vector<RankEvents> processes;
  for (const int rank : {0, 1}) processes.push_back(MadeJob(rank).wrap().times(4, step).process());
  return *summarize(processes).typical;
}

TEST(StepParts, AreWhatTheStepWasMadeOf) {
  const TypicalStep typical = *summarize({improper_rank(0), improper_rank(1)}).typical;
  ASSERT_TRUE(bool(typical.parts));
  EXPECT_THAT(typical.parts->fixed, IsEmpty());
  EXPECT_THAT(typical.parts->micro_batch, IsEmpty());
  EXPECT_THAT(typical.parts->synchronization,
              ElementsAre(Pair("all_reduce", OpSum{2, 2 * kBucketBytes})));
  EXPECT_EQ(collectives_of(*typical.parts, 4, 4), typical.collectives);
  EXPECT_EQ(collectives_of(*typical.parts, 4, 1), typical.ideal);
  EXPECT_THAT(typical.parts->fixed_s, Optional(DoubleNear(0.005, 1e-9)));
  EXPECT_THAT(typical.parts->synchronization_s, Optional(DoubleNear(kWaitMs * 1e-3, 1e-9)));
  EXPECT_THAT(seconds_of(*typical.parts, 4, 4), Optional(DoubleNear(*typical.step_s, 1e-9)));
  EXPECT_THAT(seconds_of(*typical.parts, 4, 1),
              Optional(DoubleNear(*typical.step_s - *typical.excess_s, 1e-9)));
}

TEST(StepParts, OfAStepThatSynchronizesOnceSayWhatMoreWouldCost) {
  const TypicalStep proper = typical_of([](MadeJob& job) {
    job.times(3, [](MadeJob& j) { j.forward(1, "no_sync").backward(); });
    job.forward().reducing().optimizer();
  });
  EXPECT_THAT(seconds_of(*proper.parts, 4, 4),
              Optional(DoubleNear(*proper.step_s + 3 * kWaitMs * 1e-3, 1e-9)));
  EXPECT_EQ(collectives_of(*proper.parts, 8, 8).at("all_reduce"), (OpSum{16, 16 * kBucketBytes}));
}

TEST(StepParts, WhatEveryMicroBatchDoesIsNoPartOfItsSynchronization) {
  const TypicalStep typical = typical_of([](MadeJob& job) {
    job.times(3, [](MadeJob& j) { j.forward(1, "no_sync").reducing(1, 10); });
    job.forward().reducing(3, kBucketBytes).collective("all_reduce", 4).optimizer();
  });
  EXPECT_THAT(typical.parts->micro_batch, ElementsAre(Pair("all_reduce", OpSum{1, 10})));
  EXPECT_THAT(typical.parts->synchronization,
              ElementsAre(Pair("all_reduce", OpSum{2, 3 * kBucketBytes - 10})));
  EXPECT_THAT(typical.parts->fixed, ElementsAre(Pair("all_reduce", OpSum{1, 4})));
}

TEST(StepParts, BuffersBelongToTheSynchronizationThatBroadcastsThem) {
  const TypicalStep typical = typical_of([](MadeJob& job) {
    job.times(4, [](MadeJob& j) { j.forward_with_buffers().reducing(); }).optimizer();
  });
  EXPECT_EQ(typical.parts->synchronization.at("broadcast"), (OpSum{1, 64}));
  EXPECT_THAT(typical.parts->micro_batch, IsEmpty());
}

TEST(StepParts, OfMicroBatchesThatAreNotAlikeThereAreNone) {
  const TypicalStep typical =
      typical_of([](MadeJob& job) { job.forward().reducing(2).forward().reducing(3).optimizer(); });
  EXPECT_FALSE(bool(typical.parts));
  const TypicalStep models =
      typical_of([](MadeJob& job) { job.forward(1).reducing().forward(2).reducing().optimizer(); });
  EXPECT_EQ(models.parts.why_not(), typical.parts.why_not());
  test::expect_phrases("watch/judge", {typical.parts.why_not()});
}

TEST(StepParts, OfAJobThatNeverSynchronizesThereAreNone) {
  const TypicalStep typical =
      *summarize({gradsync::test::never_job(0).process(), gradsync::test::never_job(1).process()})
           .typical;
  EXPECT_FALSE(bool(typical.parts));
  test::expect_phrases("watch/judge", {typical.parts.why_not()});
}

TEST(StepParts, TimesThatNobodySawAreNotZero) {
  const TypicalStep typical = *summarize(gradsync::test::job_without_times()).typical;
  EXPECT_EQ(typical.parts->synchronization.at("all_reduce"), (OpSum{2, std::nullopt}));
  EXPECT_EQ(seconds_of(*typical.parts, 4, 1), std::nullopt);
}

TEST(WatchJson, UnknownIsNull) {
  const auto json = watch_json(summarize(gradsync::test::job_without_times()));
  EXPECT_TRUE(json["per_step"]["excess_s"].is_null());
  EXPECT_NE(json["per_step"]["no_excess_s_because"], "");
  EXPECT_TRUE(json["per_step"]["collectives"]["all_reduce"]["bytes"].is_null());
  EXPECT_EQ(json["per_step"]["collectives"]["all_reduce"]["count"], 8);
}

Watched holding(std::int64_t first, std::int64_t second) {
  std::vector<RankEvents> ranks{improper_rank(0), improper_rank(1)};
  ranks[0].peak.bytes = first;
  ranks[1].peak.bytes = second;
  return summarize(ranks);
}

TEST(WatchPage, SaysWhatTensorsHeldAtMost) {
  EXPECT_THAT(watch_page(holding(2048, 2048)),
              HasSubstr("\ntensors held at most 2.0 KiB (2048 bytes) on every rank\n"));
  EXPECT_THAT(
      watch_page(holding(2048, 1024)),
      HasSubstr("\ntensors held at most 2.0 KiB (2048 bytes) on rank 0, 1.0 KiB (1024 bytes) "
                "on\nrank 1\n"));
}

TEST(WatchPage, SaysWhatTorchReservedOnAGpu) {
  Watched watched = holding(2048, 2048);
  EXPECT_FALSE(watch_json(watched)["ranks"][0].contains("peak_reserved_bytes"));
  for (WatchedRank& rank : watched.ranks) rank.peak.is_on_gpu = true;
  watched.ranks[0].peak.reserved_bytes = 3072;
  watched.ranks[1].peak.reserved_bytes = 4096;
  EXPECT_THAT(watch_page(watched),
              HasSubstr("of its GPU on every rank; torch\nreserved at most 4.0 KiB (4096 "
                        "bytes) there, on rank 1\n"));
  const Watched read = watched_from_json(watch_json(watched), "watch.json");
  EXPECT_EQ(read.ranks[1].peak.reserved_bytes, 4096);
}

TEST(WatchPage, SaysWhyWhatTensorsHeldIsNotKnown) {
  Watched watched = holding(2048, 2048);
  watched.ranks[1].peak.bytes = Unknown{"the reason given"};
  EXPECT_THAT(watch_page(watched), HasSubstr("is not known: the reason given"));
  watched.ranks[1].peak.bytes = Unknown{kNotCounted};
  EXPECT_THAT(watch_page(watched), Not(HasSubstr("tensors held"))) << "as of older files";
}

// Most steps may have another number of micro-batches than the usual one.
TEST(WatchPage, SaysOfHowManyStepsANumberIsThatMostDoNotHave) {
  std::vector<RankEvents> ranks;
  for (const int rank : {0, 1}) {
    MadeJob job(rank);
    job.wrap();
    for (const int micro_batches : {1, 2, 3, 4, 1, 2}) {
      const auto unsynced = [](MadeJob& j) { j.forward(1, "no_sync").backward(); };
      job.times(micro_batches - 1, unsynced).forward().reducing().optimizer();
    }
    ranks.push_back(job.process());
  }
  EXPECT_THAT(watch_page(summarize(ranks)), HasSubstr("6 steps, 2 of them of 2\nmicro-batches\n"));
}

// An account in which every rank reads what `readers` say of two ranks.
account::GradientAccount equal_account(const std::vector<int>& readers) {
  account::GradientAccount account;
  account.shown.world_size = 2;
  account.shown.groups.resize(1);
  account.shown.groups[0].ranks = {0, 1};
  account.shown.groups[0].readers = readers;
  account.verdicts = {{account::AccountKind::Equal, "all 8 weigh the same", "", false}};
  return account;
}

TEST(Summarize, NobodyIsAccusedWhereTheAccountContradictsTheCounts) {
  const auto never = [](int rank) { return gradsync::test::never_job(rank).process(); };
  Watched watched = summarize({never(0), never(1)});
  ASSERT_TRUE(has_excess(watched));
  EXPECT_TRUE(was_judged(watched));
  add_account(watched, equal_account({0}));
  EXPECT_TRUE(has_excess(watched));
  add_account(watched, equal_account({0, 1}));
  EXPECT_FALSE(has_excess(watched));
  EXPECT_FALSE(was_judged(watched));
  EXPECT_EQ(watched.verdicts[0].cause, Cause::AccountDisagrees);
  test::expect_phrases("watch/judge", {watched.verdicts[0].why});
}

Watched proper_with(const account::GradientAccount& account) {
  const auto proper = [](int rank) { return gradsync::test::proper_job(rank).process(); };
  Watched watched = summarize({proper(0), proper(1)});
  EXPECT_EQ(gate_status(watched), ExitStatus::Ok);
  add_account(watched, account);
  EXPECT_EQ(watched.verdicts[0].kind, VerdictKind::OncePerStep);
  EXPECT_FALSE(has_excess(watched));
  return watched;
}

TEST(Summarize, AJobWhoseAccountFailsIsNotCalledGood) {
  account::GradientAccount account = equal_account({0, 1});
  EXPECT_EQ(gate_status(proper_with(account)), ExitStatus::Ok);
  account.verdicts.push_back(
      {account::AccountKind::Dropped, "micro-batch 1 of 4 weighs 0", "", true});
  const Watched watched = proper_with(account);
  EXPECT_EQ(gate_status(watched), ExitStatus::Regression);
  EXPECT_EQ(watched.verdicts[0].why, "micro-batch 1 of 4 weighs 0");
  test::expect_phrases("watch/judge", {watched.verdicts[0].sentence});
  EXPECT_THAT(watch_html(watched, "train.py"), HasSubstr("badge bad"));
}

TEST(Summarize, AJobWhoseAccountIsLostIsNotJudged) {
  account::GradientAccount account = equal_account({0, 1});
  account.lost = {1};
  const Watched watched = proper_with(account);
  EXPECT_EQ(gate_status(watched), ExitStatus::Unfit);
  test::expect_phrases("watch/judge", {watched.verdicts[0].sentence, watched.verdicts[0].why});
  EXPECT_THAT(watch_html(watched, "train.py"), Not(HasSubstr("badge good")));
  Watched improper = summarize({improper_rank(0), improper_rank(1)});
  add_account(improper, account);
  EXPECT_EQ(gate_status(improper), ExitStatus::Regression);
  EXPECT_THAT(improper.verdicts[0].sentence, Not(HasSubstr("account")));
}

}  // namespace
}  // namespace gradsync::watch
