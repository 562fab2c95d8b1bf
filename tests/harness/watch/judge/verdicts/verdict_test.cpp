// Verdicts on jobs, right and wrong. Jobs without an accusation: no_accusation_test.cpp.
// Covers: drift_verdict.cpp, excess_verdict.cpp, library.cpp, rules.cpp, usual_step.cpp,
// verdict_parts.cpp, cause_words.cpp, verdict_words.cpp.
#include "harness/watch/judge/verdicts/verdict.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "harness/watch/judge/verdicts/verdict_words.h"
#include "harness/watch/tell/watched_fields.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Verdict, OncePerStepIsGood) {
  const Verdict verdict = verdict_on(four_steps(proper));
  EXPECT_EQ(verdict.kind, VerdictKind::OncePerStep);
  EXPECT_EQ(verdict.numbers.steps, 0U);
  EXPECT_EQ(verdict.cause, Cause::None);
  EXPECT_FALSE(verdict.change.has_value());
}

TEST(Verdict, EveryMicroBatchWithoutNoSync) {
  const Verdict verdict = verdict_on(four_steps(baseline));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 4, 4);
  expect_cause(verdict, Cause::NoNoSync, 21);  // of the forward
}

TEST(Verdict, NoSyncRoundBackwardAlone) {
  const Verdict verdict = verdict_on(four_steps(
      [](MadeJob& job) { job.times(3, improper_micro_batch).forward().reducing().optimizer(); }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::NoSyncAroundBackward, 11);
  EXPECT_THAT(verdict.why, HasSubstr(", train.py line 11"));
  EXPECT_EQ(verdict.change->file, "/home/someone/train.py");
}

TEST(Verdict, NoSyncOfAnotherModel) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.enter_no_sync(2, 13).times(3, synced).leave_no_sync(2);
    job.forward().reducing().optimizer();
  }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::NoSyncOfAnotherModel, 13);
}

// An evaluation that has gradients, between two micro-batches.
TEST(Verdict, AForwardThatNoBackwardFollowsArmsTheNextOne) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.times(2, unsynced).forward(1, "eval");
    job.enter_no_sync().forward(1, "no_sync").reducing().leave_no_sync();
    job.forward().reducing().optimizer();
  }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 2, 4);
  expect_cause(verdict, Cause::ForwardOutsideNoSync, 21);
}

TEST(Verdict, SomeMicroBatchesTooMany) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& job) { job.times(2, unsynced).times(2, synced).optimizer(); }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 2, 4);
}

TEST(Verdict, NeverUnderANoSyncThatHoldsAll) {
  const Verdict verdict =
      verdict_on(four_steps([](MadeJob& job) { job.times(4, unsynced).optimizer(); }));
  expect_accused(verdict, VerdictKind::Never);
  EXPECT_EQ(verdict.numbers.micro_batches, 4);
  EXPECT_FALSE(verdict.numbers.are_kept_back);
  expect_cause(verdict, Cause::NoSyncAroundAll, 11);
}

TEST(Verdict, NeverUnderAMirroredNoSync) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.times(
        4, [](MadeJob& j) { j.enter_no_sync().forward(1, "no_sync").leave_no_sync().backward(); });
    job.optimizer();
  }));
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::NoSyncAroundForward, 11);
}

// Lightning's manual optimization runs backward and optimizer within the wrapper's forward, and
// arms the reducer itself: the flag stays off, and the bytes tell.
TEST(Verdict, WhatIsReducedGoesBeforeTheWrappersFlag) {
  const auto within = [](int reductions, std::int64_t bytes, bool has_step) {
    return [=](MadeJob& job) {
      job.begin_forward(1, "no_sync");
      if (reductions == 0) job.backward();
      if (reductions > 0) job.reducing(reductions, bytes);
      if (has_step) job.optimizer().zero_grad();
      job.end();
    };
  };
  const auto often = within(1, 3000, false);
  const auto last = within(1, 3000, true);
  const auto silent = within(0, 0, false);
  const auto wrapped = [] { return MadeJob().wrap(1, "", 3000); };
  expect_good(wrapped().times(4, [&](MadeJob& job) { job.times(3, silent).times(1, last); }));
  const auto every = [&](MadeJob& job) { job.times(3, often).times(1, last); };
  const Verdict verdict = verdict_on(wrapped().times(4, every));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_often(verdict, 4, 4);
  // The same behind a first step that was not told so, in more reductions.
  MadeJob first = wrapped();
  first.times(4, [](MadeJob& job) { job.forward().reducing(3, 1000); }).optimizer();
  expect_often(verdict_on(first.times(4, every)), 4, 4);
}

// A trainer's loop: there the line of the job is the call that starts it.
TEST(Verdict, AChangeInALibraryNamesItAndItsOption) {
  std::vector<std::string> said;
  for (const std::string library : {"ignite", "lightning", "of_yesterday"}) {
    MadeJob job = four_steps(baseline);
    for (Event& event : job.events()) {
      event.line = 30;
      event.inside = library + "/engine/loop.py";
      event.inside_line = 133;
    }
    const Verdict verdict = verdict_on(job);
    expect_cause(verdict, Cause::NoNoSync, 30);
    EXPECT_EQ(verdict.change->inside, library + ", engine/loop.py line 133");
    said.push_back(change_text(*verdict.change));
  }
  test::expect_phrases("watch/judge", said);
}

// The Trainer of transformers has accelerate wrap the model.
TEST(Verdict, AnOptionOfAccelerateIsNamedForTransformersAsWell) {
  MadeJob job = MadeJob().wrap(1, "find_unused_parameters=true").times(4, proper);
  Event& wrap = job.events().front();
  wrap.inside = "accelerate/accelerator.py";
  wrap.inside_line = 2060;
  const std::vector<Verdict> verdicts = verdicts_on(job);
  const auto unused = std::ranges::find(verdicts, VerdictKind::UnusedParameters, &Verdict::kind);
  ASSERT_NE(unused, verdicts.end());
  test::expect_phrases("watch/judge", {change_text(*unused->change)});
}

TEST(Verdict, ALibraryThatOnlyHelpsALoopIsNotNamed) {
  MadeJob job = four_steps(baseline);
  for (Event& event : job.events()) {
    if (event.kind == EventKind::Wrap) event.inside = "accelerate/accelerator.py";
    // A loss of a library's runs forward, the job's own loop backward.
    if (event.kind == EventKind::Forward) event.inside = "losses/loss.py";
  }
  EXPECT_EQ(verdict_on(job).change->inside, "");
}

TEST(Verdict, NeverWhereTheModuleIsCalledInsteadOfItsWrapper) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& job) { job.times(2, [](MadeJob& j) { j.backward(); }).optimizer(); }));
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::WrappersForwardNeverRan, 5);
}

TEST(Verdict, StepsThatDoNotSynchronizeAmongOthers) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.times(2, proper).times(2, unsynced).optimizer();  // the end of an epoch
  }));
  EXPECT_EQ(verdict.kind, VerdictKind::SomeStepsNever);
  EXPECT_EQ(verdict.numbers.steps, 4U);
  EXPECT_EQ(verdict.numbers.of_steps, 12U);
  EXPECT_FALSE(verdict.numbers.are_kept_back);
}

MadeJob replicate_job(const char* wrapper) {
  MadeJob job;
  job.wrapper = wrapper;
  return job;
}

TEST(Verdict, ReplicateHoldsWholeGradientsAndIsJudgedAsDdp) {
  const Verdict verdict = verdict_on(four_steps(baseline, replicate_job(kReplicate)));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::GradientFlagNotCalled, 21);  // of the forward
}

TEST(Verdict, AFlagOfReplicateThatIsAlwaysOn) {
  const Verdict verdict = verdict_on(four_steps(
      [](MadeJob& j) { j.flag(true).times(2, synced).optimizer(); }, replicate_job(kReplicate)));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::GradientFlagOn, 41);
}

TEST(Verdict, AFlagOfReplicateOverDdpThatComesBehindForward) {
  const auto late = [](MadeJob& j) { j.flag(true).forward().flag(false, 43).reducing(); };
  const Verdict verdict = verdict_on(four_steps([&](MadeJob& j) { j.times(2, late).optimizer(); },
                                                replicate_job("replicate over DDP")));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::GradientFlagBehindForward, 43);
}

TEST(Verdict, ReplicateThatIsToldNotToCommunicatesNothingAtAll) {
  MadeJob job = replicate_job(kReplicate);
  job.flag(false).times(
      4, [](MadeJob& j) { j.times(2, [](MadeJob& k) { k.forward().backward(); }).optimizer(); });
  const Verdict verdict = verdict_on(job);
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::GradientFlagOff, 41);
}

void synced_first(MadeJob& job) {
  job.forward().reducing().times(3, unsynced).optimizer().zero_grad();
}

TEST(Verdict, ASynchronizationThatComesTooEarly) {
  const Verdict verdict = verdict_on(four_steps(synced_first));
  expect_accused(verdict, VerdictKind::TooEarly);
  EXPECT_EQ(verdict.numbers.behind_the_last, 3);
  EXPECT_EQ(verdict.numbers.micro_batches, 4);
  EXPECT_FALSE(verdict.numbers.are_kept_back);
  expect_cause(verdict, Cause::NoSyncAroundAll, 11);
}

TEST(Verdict, FsdpWhoseFlagIsSwitchedOffTooEarly) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  const Verdict verdict = verdict_on(four_steps(
      [](MadeJob& j) {
        j.flag(true).forward().reducing().flag(false);
        j.times(3, [](MadeJob& k) { k.forward().backward(); }).optimizer();
      },
      job));
  expect_accused(verdict, VerdictKind::TooEarly);
  expect_cause(verdict, Cause::GradientFlagOff, 41);
  EXPECT_EQ(verdict.numbers.behind_the_last, 3);
  EXPECT_TRUE(verdict.numbers.are_kept_back);
}

TEST(Verdict, WhatFullyShardDoesNotReduceItKeepsFromTheOptimizer) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  const auto kept = [](MadeJob& j) {
    j.flag(false).times(4, [](MadeJob& k) { k.forward().backward(); }).optimizer();
  };
  const Verdict never = verdict_on(four_steps(kept, job));
  expect_accused(never, VerdictKind::Never);
  EXPECT_TRUE(never.numbers.are_kept_back);
  const Verdict some = verdict_on(four_steps(
      [&](MadeJob& j) {
        j.times(2, [](MadeJob& k) {
           k.flag(true).forward().reducing().optimizer();
         }).times(1, kept);
      },
      job));
  EXPECT_EQ(some.kind, VerdictKind::SomeStepsNever);
  EXPECT_EQ(some.numbers.steps, 4U);
  EXPECT_TRUE(some.numbers.are_kept_back);
}

// Steps of so many micro-batches, each of which synchronizes.
void synced_steps(MadeJob& job, const std::vector<int>& micro_batches) {
  for (const int count : micro_batches) job.times(count, synced).optimizer().zero_grad();
}

TEST(Verdict, MicroBatchesWhoseNumberVaries) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& j) {
    synced_steps(j, {2, 1, 3, 1, 4, 1});
  }));
  EXPECT_EQ(verdict.kind, VerdictKind::OncePerStep) << "fewer than half";
  EXPECT_EQ(verdict.numbers.steps, 11U);
  EXPECT_EQ(verdict.numbers.of_steps, 23U);
  EXPECT_EQ(verdict.cause, Cause::NoNoSync);
  EXPECT_FALSE(verdict.fails);
  expect_accused(verdict_on(four_steps([](MadeJob& j) {
                   synced_steps(j, {1, 1, 2, 3, 4});
                 })),
                 VerdictKind::MoreThanOnce);
}

TEST(Verdict, FsdpWithoutNoSyncMayBeMeant) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  const Verdict verdict = verdict_on(four_steps(baseline, job));
  EXPECT_EQ(verdict.kind, VerdictKind::FsdpEveryMicroBatch);
  EXPECT_EQ(verdict.numbers.reductions, 8);
  EXPECT_TRUE(verdict.numbers.are_scatters);
  EXPECT_FALSE(verdict.fails);
}

TEST(Verdict, FsdpThatReducesOnceIsGood) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  expect_good(four_steps(
      [](MadeJob& j) {
        j.flag(false).times(3, [](MadeJob& k) { k.forward().backward(); });
        j.flag(true).forward().reducing().optimizer();
      },
      job));
}

TEST(Verdict, FsdpWithTensorParallelLayersThatReducesOnceIsGood) {
  MadeJob job;
  job.wrapper = "fully_shard";
  const auto parallel_layers = [](MadeJob& j) {
    j.times(3, [](MadeJob& k) { k.collective("all_reduce", 500); });
  };
  expect_good(four_steps(
      [&](MadeJob& j) {
        j.flag(false).times(3, [&](MadeJob& k) {
          k.forward().begin(EventKind::Backward).times(1, parallel_layers).end();
        });
        j.flag(true).forward().begin(EventKind::Backward).times(1, parallel_layers);
        j.collective("reduce_scatter", kBucketBytes).end().optimizer();
      },
      job));
}

TEST(Verdict, FsdpWhoseFlagStaysOff) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  const Verdict verdict = verdict_on(four_steps(
      [](MadeJob& j) {
        j.flag(false).times(4, [](MadeJob& k) { k.forward().backward(); }).optimizer();
      },
      job));
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::GradientFlagOff, 41);
}

TEST(Verdict, SearchesForUnusedParametersAreToldBesideTheRest) {
  const auto verdicts = verdicts_on(
      MadeJob().wrap(1, "find_unused_parameters=true static_graph=false").times(4, proper));
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(verdicts[0].kind, VerdictKind::OncePerStep);
  EXPECT_EQ(verdicts[1].kind, VerdictKind::UnusedParameters);
  expect_cause(verdicts[1], Cause::SearchesUnused, 5);
  EXPECT_FALSE(verdicts[1].fails);
  EXPECT_THAT(verdicts_on(MadeJob().wrap(1, "find_unused_parameters=false").times(4, proper)),
              SizeIs(1));
  EXPECT_THAT(verdicts_on(MadeJob()
                              .wrap(1, "find_unused_parameters=false")
                              .wrap(2, "find_unused_parameters=true")
                              .times(4, proper)),
              SizeIs(1))
      << "of a model that does not run";
}

TEST(Verdict, BuffersOfEveryMicroBatchAreToldBesideTheRest) {
  const auto verdicts = verdicts_on(four_steps([](MadeJob& job) {
    job.times(4, [](MadeJob& j) { j.forward_with_buffers().reducing(); }).optimizer();
  }));
  ASSERT_THAT(verdicts, SizeIs(2));
  expect_accused(verdicts[0], VerdictKind::MoreThanOnce);
  EXPECT_EQ(verdicts[1].kind, VerdictKind::Buffers);
  EXPECT_EQ(verdicts[1].numbers.synchronized, 4);
}

TEST(Verdict, OneProcessHasNothingToSynchronize) {
  EXPECT_EQ(verdict_on(four_steps(baseline, MadeJob(0, 1))).kind, VerdictKind::OneProcess);
  EXPECT_EQ(verdict_on(four_steps(baseline, MadeJob(-1, 0))).kind, VerdictKind::OneProcess);
}

TEST(Verdict, WithoutAStepThereIsNone) {
  EXPECT_EQ(verdict_on(MadeJob().wrap().times(3, [](MadeJob& j) { j.forward(1, "no_grad"); })).kind,
            VerdictKind::NoSteps);
  EXPECT_EQ(verdict_on(MadeJob()).kind, VerdictKind::NoSteps);
}

TEST(Verdict, KindsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(VerdictKind::NotRecognised); ++i) {
    names.insert(name_of(static_cast<VerdictKind>(i)));
  }
  EXPECT_THAT(names, SizeIs(22));
}

// Every sentence: of each kind with two sets of numbers, and of each cause with its change.
TEST(Verdict, EveryKindAndCauseHasItsSentence) {
  std::vector<std::string> said;
  const VerdictNumbers all{.micro_batches = 4,
                           .synchronized = 4,
                           .behind_the_last = 3,
                           .reductions = 1,
                           .step = 1,
                           .bytes = 1280,
                           .is_certain = true,
                           .parameters = {"`proxies`"}};
  const VerdictNumbers some{.micro_batches = 4,
                            .synchronized = 2,
                            .behind_the_last = 1,
                            .steps = 4,
                            .of_steps = 12,
                            .reductions = 8,
                            .are_scatters = true,
                            .are_kept_back = true,
                            .models_are_known = false,
                            .step = 5,
                            .bytes = 6368,
                            .are_broadcast = true,
                            .parameters = {"`0.weight`", "`0.bias`", "`2.weight`"}};
  for (int kind = 0; kind <= static_cast<int>(VerdictKind::NotInFile); ++kind) {
    const std::string once = told(static_cast<VerdictKind>(kind), all).sentence;
    const std::string again = told(static_cast<VerdictKind>(kind), some).sentence;
    said.push_back(once);
    if (again != once) said.push_back(again);
  }
  said.push_back(told(VerdictKind::Never).sentence);
  const VerdictNumbers replayed{.micro_batches = 8, .synchronized = 8, .are_replayed = true};
  said.push_back(told(VerdictKind::MoreThanOnce, replayed).sentence);
  Event event;
  event.name = kDdp;
  for (const char* detail : {"eval inside=module.table", "eval inside=", "eval"}) {
    event.detail = detail;
    Verdict inner = told(VerdictKind::MoreThanOnce, all);
    say_inside(inner, event);
    said.push_back(inner.sentence);
  }
  event.file = "/home/someone/train.py";
  event.line = 11;
  std::set<std::string> names;
  for (const CauseWords& words : all_cause_words()) {
    names.insert(words.name);
    event.name = words.cause == Cause::GradientFlagNotCalled ? kReplicate : kDdp;
    EXPECT_EQ(cause_named(to_string(words.cause)), words.cause);
    for (const bool other : {false, true}) {
      if (other && words.other_change == nullptr) continue;
      Verdict verdict = told(VerdictKind::MoreThanOnce, all);
      explain(
          verdict, words.cause,
          {.at = &event, .which = "every micro-batch", .given = "GIVEN", .other_change = other});
      said.push_back(verdict.why);
      if (verdict.change) said.push_back("  " + change_text(*verdict.change));
    }
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Cause::BetweenNotTold)) << "all but None";
  EXPECT_EQ(cause_named("fate"), std::nullopt);
  test::expect_phrases("watch/judge", said);
}

TEST(UsualStep, IsTheCommonOneWithTheCommonCollectives) {
  const RankEvents process = MadeJob()
                                 .wrap()
                                 .times(3, proper)
                                 .forward()
                                 .reducing()
                                 .optimizer()
                                 .times(2, proper)
                                 .collective("all_reduce", 4)  // logged once
                                 .times(1, proper)
                                 .process();
  const Steps steps = cut_into_steps(process.events);
  const auto counts = count_steps(steps);
  const auto usual = usual_step(counts);
  ASSERT_TRUE(usual.has_value());
  EXPECT_EQ(usual->micro_batches, 4);
  EXPECT_EQ(usual->synchronized, 1);
  EXPECT_THAT(usual->all, SizeIs(5));  // of seven: without the first, and the short one
  EXPECT_EQ(usual->example->collectives.at("all_reduce"), (OpSum{2, 2 * kBucketBytes}));
}

}  // namespace
}  // namespace gradsync::watch
