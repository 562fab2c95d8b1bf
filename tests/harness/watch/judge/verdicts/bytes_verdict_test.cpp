#include <gtest/gtest.h>

#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

constexpr std::int64_t kGradients = 100'000;

// One that all ranks begin with the same parameters of.
MadeJob equal_job() {
  return std::move(MadeJob().collective("broadcast", kGradients));
}

void reduce(MadeJob& j) {
  j.collective("all_reduce", kGradients);
}

// The backwards of a step: each after the first adds to what was there.
void first(MadeJob& j) {
  j.backward_of(kGradients);
}
void next(MadeJob& j) {
  j.backward_of(kGradients, kGradients, 62);
}

TEST(BytesVerdict, OncePerStep) {
  const auto step = [](MadeJob& j) {
    first(j);
    j.times(3, next);
    reduce(j);
    j.optimizer();
  };
  expect_good(MadeJob().times(4, step));
}

TEST(BytesVerdict, InEveryMicroBatch) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.times(3, [](MadeJob& k) {
       next(k);
       reduce(k);
     }).optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  expect_cause(verdict, Cause::ReducedBehindEach, 61);
  EXPECT_EQ(verdict.numbers.synchronized, 4);
}

TEST(BytesVerdict, TheLineIsThatOfTheCallThatReduces) {
  const auto step = [](MadeJob& j) {
    j.backward_of(kGradients).call("all_reduce", 3, "all_reduce", kGradients, 71);
    j.backward_of(kGradients, kGradients).call("all_reduce", 3, "all_reduce", kGradients, 71);
    j.optimizer();
  };
  expect_cause(verdict_on(MadeJob().times(4, step)), Cause::ReducedBehindEach, 71);
}

TEST(BytesVerdict, WhoKeepsNoGradientsMayNeedEach) {
  const auto step = [](MadeJob& j) {
    j.times(4, [](MadeJob& k) {
       first(k);
       reduce(k);
     }).optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  EXPECT_EQ(verdict.kind, VerdictKind::EveryMicroBatch);
  EXPECT_EQ(verdict.cause, Cause::GradientsNotKept);
  EXPECT_FALSE(verdict.fails);
}

TEST(BytesVerdict, WhereSomeAreKeptNobodyIsAccused) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.backward_of(kGradients, kGradients / 2);
    reduce(j);
    j.optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  EXPECT_EQ(verdict.kind, VerdictKind::MoreThanOnce);
  EXPECT_FALSE(verdict.fails);
}

TEST(BytesVerdict, ClearedBetweenMayNeedEach) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.zero_grad();
    first(j);
    reduce(j);
    j.optimizer();
  };
  EXPECT_EQ(verdict_on(MadeJob().times(4, step)).cause, Cause::GradientsCleared);
}

TEST(BytesVerdict, TooEarly) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.times(2, next).optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  expect_accused(verdict, VerdictKind::TooEarly);
  expect_cause(verdict, Cause::ReducedTooEarly, 62);
  EXPECT_EQ(verdict.numbers.behind_the_last, 2);
}

TEST(BytesVerdict, WhatAddsToNothingBehindTheLastMayBeOfAnotherKind) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    first(j);
    j.optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  EXPECT_EQ(verdict.kind, VerdictKind::TooEarly);
  EXPECT_FALSE(verdict.fails);
}

TEST(BytesVerdict, NeverWhereRanksBeganEqual) {
  const auto step = [](MadeJob& j) {
    first(j);
    next(j);
    j.optimizer();
  };
  const Verdict verdict = verdict_on(equal_job().times(4, step));
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::NothingReduced, 62);
  expect_not_recognised(MadeJob().collective("broadcast", 64).times(4, step), Cause::TrainApart);
}

// As where the module is compiled first, and the wrapper is made beside it.
TEST(BytesVerdict, NeverWhereTheWrapperIsNotCalled) {
  const auto step = [](MadeJob& j) {
    j.backward_of(test::kBuckets * test::kBucketBytes).optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().wrap().times(4, step));
  expect_accused(verdict, VerdictKind::Never);
  expect_cause(verdict, Cause::WrappersForwardNeverRan, 5);
  EXPECT_EQ(verdict.numbers.micro_batches, 1);
  const MadeJob evaluated = MadeJob().wrap().forward(1, "no_grad eval").times(4, step);
  expect_cause(verdict_on(evaluated), Cause::NothingReduced, 61);
}

TEST(BytesVerdict, WhoAveragesByHandOrInBackwardIsNotAccused) {
  const auto local = [](MadeJob& j) { j.backward_of(kGradients).optimizer(); };
  expect_not_recognised(equal_job().times(3, local).collective("all_gather", 2 * kGradients),
                        Cause::UnwrappedAveragedByHand);
  const auto parallel = [](MadeJob& j) { j.reducing(2, 300'000).optimizer(); };
  MadeJob job = equal_job().times(4, parallel);
  for (Event& event : job.events()) {
    if (event.kind == EventKind::Backward) event.bytes = kGradients;
  }
  expect_not_recognised(job, Cause::UnknownWrapper);
}

TEST(BytesVerdict, SomeSteps) {
  const auto synced = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.optimizer();
  };
  const auto local = [](MadeJob& j) {
    first(j);
    j.optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, synced).times(2, local));
  EXPECT_EQ(verdict.kind, VerdictKind::SomeStepsNever);
  EXPECT_FALSE(verdict.fails);
  EXPECT_EQ(verdict.numbers.steps, 2U);
}

TEST(BytesVerdict, ParametersThatAreAveragedAreNoGradients) {
  const auto step = [](MadeJob& j) {
    first(j);
    reduce(j);
    j.optimizer();
  };
  const MadeJob job = MadeJob().times(4, step);
  RankEvents process = job.process();
  Exchange averaged;
  averaged.what = Exchange::What::Parameter;
  process.exchanges = {averaged};
  const Steps steps = cut_into_steps(process.events);
  EXPECT_EQ(judge(process, steps, count_steps(steps)).front().cause,
            Cause::UnwrappedAveragedByHand);
}

TEST(BytesVerdict, WhatLibrariesRunIsSaid) {
  const auto step = [](MadeJob& j) {
    j.times(4, [](MadeJob& k) {
      first(k);
      k.events().back().inside = "deepspeed/runtime/engine.py";
      k.events().back().inside_line = 3428;
      reduce(k);
    });
    j.optimizer();
  };
  const Verdict verdict = verdict_on(MadeJob().times(4, step));
  ASSERT_TRUE(verdict.change.has_value());
  EXPECT_EQ(verdict.change->inside, "deepspeed, runtime/engine.py line 3428");
  EXPECT_NE(verdict.change->what.find("\"stage\": 1"), std::string::npos);
}

}  // namespace
}  // namespace gradsync::watch
