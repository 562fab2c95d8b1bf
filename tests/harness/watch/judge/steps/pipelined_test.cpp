// Stages of pipelines, whose forwards run ahead of their backwards.
#include "harness/watch/judge/steps/pipelined.h"

#include <gmock/gmock.h>

#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using ::testing::SizeIs;

void quiet_forward(MadeJob& job) {
  job.enter_no_sync().forward(1, "no_sync").leave_no_sync();
}

// F F B F B F B B, of which the last backward is `last`.
template <typename Forward, typename Backward, typename Last>
MadeJob one_f_one_b(Forward forward, Backward backward, Last last) {
  return four_steps([&](MadeJob& job) {
    forward(job);
    for (int i = 0; i < 3; ++i) {
      forward(job);
      backward(job);
    }
    last(job);
    job.optimizer().zero_grad();
  });
}

void quiet_backward(MadeJob& job) {
  job.backward();
}

void reducing_backward(MadeJob& job) {
  job.reducing();
}

TEST(Pipelined, EachForwardHasABackwardOfItsOwn) {
  const RankEvents process =
      one_f_one_b(quiet_forward, quiet_backward, reducing_backward).process();
  const Steps steps = cut_into_steps(process.events);
  ASSERT_THAT(steps.steps, SizeIs(4));
  const std::vector<StepCounts> counts = count_steps(steps);
  for (const StepCounts& step : counts) {
    ASSERT_THAT(step.step->micro_batches, SizeIs(4));
    EXPECT_EQ(step.micro_batches, 4);
    EXPECT_EQ(step.synchronized, 1);
    EXPECT_EQ(step.behind_the_last, 0);
    for (const MicroBatch& micro_batch : step.step->micro_batches) {
      EXPECT_THAT(micro_batch.forwards, SizeIs(1));
      EXPECT_THAT(micro_batch.backwards, SizeIs(1));
      EXPECT_TRUE(micro_batch.is_pipelined);
      EXPECT_TRUE(micro_batch.is_unsynced);
    }
    EXPECT_THAT(step.step->micro_batches.back().in_backward, SizeIs(2));
  }
}

TEST(Pipelined, AnArmedLastBackwardIsGood) {
  expect_good(one_f_one_b(quiet_forward, quiet_backward, reducing_backward));
}

TEST(Pipelined, AllForwardsBeforeAllBackwards) {
  expect_good(four_steps([](MadeJob& job) {
    job.times(4, quiet_forward).times(3, quiet_backward).reducing().optimizer();
  }));
}

TEST(Pipelined, EveryForwardArmsTheBackwardBeforeItsOwn) {
  const auto forward = [](MadeJob& job) { job.forward(); };
  const Verdict verdict = verdict_on(one_f_one_b(forward, reducing_backward, quiet_backward));
  expect_accused(verdict, VerdictKind::TooEarly);
  EXPECT_EQ(verdict.numbers.behind_the_last, 1);
  EXPECT_EQ(verdict.numbers.micro_batches, 4);
  expect_cause(verdict, Cause::ArmedEarly, 21);  // of the forward
}

TEST(Pipelined, NobodyArmsTheLastBackward) {
  expect_accused(verdict_on(one_f_one_b(quiet_forward, quiet_backward, quiet_backward)),
                 VerdictKind::Never);
}

TEST(Pipelined, GradientsThatAreAveragedByHandBehindIt) {
  const auto last = [](MadeJob& job) { job.backward().collective("all_reduce", 100'000); };
  expect_not_recognised(one_f_one_b(quiet_forward, quiet_backward, last), Cause::AveragedByHand);
}

TEST(Pipelined, OfStagesThatTakeTurnsItIsNotKnownWhichRanBackward) {
  const MadeJob job = four_steps([](MadeJob& j) {
    j.forward(1, "no_sync").forward(1, "no_sync").forward(2, "no_sync").forward(2, "no_sync");
    j.backward().forward(1, "no_sync").backward().forward(2, "no_sync");
    j.times(2, quiet_backward).times(2, reducing_backward).optimizer();
  });
  expect_not_recognised(job, Cause::ModelsTakeTurns);
  const RankEvents process = job.process();
  const Steps steps = cut_into_steps(process.events);
  for (const StepCounts& step : count_steps(steps)) EXPECT_EQ(step.micro_batches, 3);
}

TEST(Pipelined, TwoModelsWhoseBackwardsFollowEachOtherAreNoPipeline) {
  expect_good(four_steps([](MadeJob& job) {
    job.times(2, [](MadeJob& j) {
      j.enter_no_sync(1).enter_no_sync(2);
      j.forward(1, "no_sync").forward(2, "no_sync").backward().backward();
      j.leave_no_sync(1).leave_no_sync(2);
    });
    job.forward(1).forward(2).reducing().reducing().optimizer();
  }));
}

TEST(Pipelined, ABackwardOfFewerGradientsMayBeOfAnotherModel) {
  expect_not_recognised(four_steps([](MadeJob& job) {
                          job.forward().forward().reducing_paced(4, 20, {{10, 5, 1000}});
                          job.reduced_by_hand(2, 20, {}).optimizer();
                        }),
                        Cause::LeftBehind);
}

TEST(Pipelined, AnEvaluationBehindTheStepIsNoPartOfIt) {
  expect_good(four_steps([](MadeJob& job) {
    job.times(2, quiet_forward).backward().reducing();
    job.times(3, [](MadeJob& j) { j.forward(); }).optimizer();
  }));
}

}  // namespace
}  // namespace gradsync::watch
