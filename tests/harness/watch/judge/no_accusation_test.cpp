// Above all: jobs that no verdict may accuse.
#include "harness/watch/judge/verdicts/verdict.h"

#include <gmock/gmock.h>

#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kBuckets;
using ::testing::HasSubstr;

TEST(NoAccusation, ALastMicroBatchOfWhichNobodyKnowsWhyItIsQuiet) {
  const auto step = [](MadeJob& j) { j.forward().reducing().forward().backward().optimizer(); };
  const Verdict verdict = verdict_on(four_steps(step));
  EXPECT_EQ(verdict.kind, VerdictKind::TooEarly);
  EXPECT_FALSE(verdict.fails);
}

TEST(NoAccusation, GradientsAveragedByHandAfterTheLastMicroBatch) {
  const auto step = [](MadeJob& j) {
    j.forward().reducing().times(3, unsynced).collective("all_reduce", 100'000).optimizer();
  };
  expect_not_recognised(four_steps(step), Cause::LastAveragedByHand);
}

TEST(NoAccusation, GradientsClearedBehindASynchronization) {
  const auto step = [](MadeJob& j) {
    j.forward().reducing().zero_grad().times(2, unsynced).optimizer();
  };
  expect_not_recognised(four_steps(step), Cause::GradientsCleared);
}

// Adversarial training, a gradient noise scale: what is read in between is needed there.
TEST(NoAccusation, GradientsReadBetweenMicroBatches) {
  const auto step = [](MadeJob& j) {
    j.forward().reducing().use_gradients(kRead).forward().reducing().optimizer();
  };
  expect_not_recognised(four_steps(step), Cause::GradientsRead);
}

TEST(NoAccusation, ParametersChangedBetweenMicroBatches) {
  const auto step = [](MadeJob& j) {
    j.forward().reducing().use_gradients(kParameters).forward().reducing().optimizer();
  };
  expect_not_recognised(four_steps(step), Cause::ParametersChanged);
}

// After the last backward everybody reads them.
TEST(NoAccusation, AReadBehindTheLastMicroBatchExcusesNothing) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& j) { j.times(2, synced).use_gradients(kRead).optimizer(); }));
  EXPECT_EQ(verdict.kind, VerdictKind::MoreThanOnce);
  EXPECT_TRUE(verdict.fails);
}

// DDP reduces in the first backward behind a forward.
TEST(NoAccusation, ASecondBackwardThatMayBeOfAnotherModel) {
  expect_not_recognised(
      four_steps([](MadeJob& j) { j.forward().reducing().backward().optimizer(); }),
      Cause::LeftBehind);
}

TEST(NoAccusation, ParametersThatAreGatheredAsLargeAsTheyAre) {
  const auto job = [](std::int64_t gathered) {
    return MadeJob().wrap(1, "", 100'000).times(4, [=](MadeJob& j) {
      j.times(2, unsynced).optimizer().collective("all_gather", gathered);
    });
  };
  expect_not_recognised(job(2 * 100'000), Cause::AveragedByHand);
  expect_accused(verdict_on(job(2 * 40'000)), VerdictKind::Never);  // results
}

// As torch's pipelines do under FSDP.
TEST(NoAccusation, GradientsScatteredByHandHoweverSmall) {
  expect_not_recognised(four_steps([](MadeJob& j) {
                          j.times(3, unsynced).collective("reduce_scatter", 64).optimizer();
                        }),
                        Cause::AveragedByHand);
}

// DDP over a group of one, as where a pipeline has one replica of each stage.
TEST(NoAccusation, WhoReducesInAGroupOfOneRank) {
  RankEvents process = four_steps(baseline).process();
  for (Event& event : process.events) {
    event.is_apart = event.kind == EventKind::Collective;
  }
  const Steps steps = cut_into_steps(process.events);
  const Verdict verdict = judge(process, steps, count_steps(steps)).front();
  EXPECT_EQ(verdict.kind, VerdictKind::NotRecognised);
  EXPECT_EQ(verdict.cause, Cause::ReducesAlone);
}

TEST(NoAccusation, AHookThatMayReduceByItself) {
  const auto step = [](MadeJob& j) { j.forward().backward().optimizer(); };
  MadeJob job;
  job.comm_hook();
  expect_not_recognised(four_steps(step, job), Cause::CommHook);
  EXPECT_THAT(verdict_on(four_steps(step, job)).why, HasSubstr(", train.py line 51"));
}

TEST(NoAccusation, AProcessThatIsOneOfSeveralElsewhere) {
  const MadeJob job = four_steps([](MadeJob& j) { j.forward().backward().optimizer(); });
  RankEvents rank = job.process();
  rank.world_size = 0;
  rank.peers = "OMPI_COMM_WORLD_SIZE=4";
  const Steps steps = cut_into_steps(rank.events);
  const Verdict verdict = judge(rank, steps, count_steps(steps)).front();
  EXPECT_EQ(verdict.cause, Cause::ProcessesWithoutGroup);
  EXPECT_THAT(verdict.why, HasSubstr("OMPI_COMM_WORLD_SIZE=4"));
}

// Correct jobs of odd shapes.

TEST(NoAccusation, OneMicroBatchPerStep) {
  expect_good(four_steps([](MadeJob& j) { j.forward().reducing().optimizer(); }));
  expect_good(four_steps([](MadeJob& j) { j.forward_with_buffers().reducing().optimizer(); }));
}

TEST(NoAccusation, StepsThatAScalerSkips) {
  expect_good(four_steps([](MadeJob& j) {
    j.times(2, [](MadeJob& k) { k.forward().reducing().optimizer("skipped"); });
    j.forward().reducing().optimizer();
  }));
}

TEST(NoAccusation, ASkippedStepThatNobodySaw) {
  expect_good(four_steps([](MadeJob& j) {
    j.times(3, [](MadeJob& k) { k.forward().reducing().optimizer(); });
    j.times(2, synced).optimizer();
  }));
}

TEST(NoAccusation, TwoModelsInOneStep) {
  expect_good(four_steps(
      [](MadeJob& j) { j.forward(1).reducing().forward(2).reducing().optimizer().optimizer(); }));
}

TEST(NoAccusation, AGeneratorAndItsCritic) {
  expect_good(four_steps([](MadeJob& j) {
    j.forward(1, "no_grad").forward(2).reducing().optimizer().zero_grad();
    j.forward(1).forward(2).reducing().optimizer().zero_grad();
  }));
}

TEST(NoAccusation, TwoModelsWithoutTheHookAreAskedAboutAtMost) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& j) { j.forward(0).reducing().forward(0).reducing().optimizer(); }));
  EXPECT_EQ(verdict.cause, Cause::ModelsNotKnown);
  EXPECT_FALSE(verdict.fails);
}

TEST(NoAccusation, WithoutTheHookNobodyFailsForNever) {
  const Verdict verdict =
      verdict_on(four_steps([](MadeJob& j) { j.forward(0).backward().optimizer(); }));
  EXPECT_EQ(verdict.kind, VerdictKind::Never);
  EXPECT_FALSE(verdict.fails);
}

TEST(NoAccusation, ModelsThatShareMicroBatches) {
  expect_not_recognised(four_steps([](MadeJob& j) {
                          j.forward(1).forward(2).reducing().forward(1).reducing().optimizer();
                        }),
                        Cause::SharedMicroBatches);
}

TEST(NoAccusation, EvaluationBetween) {
  const auto with_evaluation = [](const std::string& detail) {
    return four_steps([&](MadeJob& j) {
      proper(j);
      j.times(5, [&](MadeJob& k) { k.forward_with_buffers(1, detail); });
      proper(j);
    });
  };
  expect_good(with_evaluation("no_grad eval"));
  expect_good(with_evaluation("eval"));
  expect_good(with_evaluation(""));
}

TEST(NoAccusation, GradientsClearedInBetween) {
  // Sharpness-aware minimization: two backwards at two places of the weights.
  expect_not_recognised(four_steps([](MadeJob& j) {
                          j.forward().reducing().zero_grad(33).forward().reducing().optimizer();
                        }),
                        Cause::GradientsCleared);
}

TEST(NoAccusation, OptimizersWithAClosure) {
  expect_not_recognised(
      four_steps([](MadeJob& j) { j.begin(EventKind::OptimizerStep).times(3, synced).end(); }),
      Cause::RepeatsClosure);
}

TEST(NoAccusation, GradientsAveragedByHand) {
  const auto step = [](MadeJob& j) {
    j.times(4, [](MadeJob& k) { k.backward(); }).collective("all_reduce", 100'000).optimizer();
  };
  expect_not_recognised(MadeJob().collective("broadcast", 8).times(4, step),
                        Cause::UnwrappedAveragedByHand);
}

TEST(NoAccusation, ParametersAveragedNowAndThen) {
  const auto local = [](MadeJob& j) { j.times(4, unsynced).optimizer(); };
  expect_not_recognised(
      MadeJob().wrap().times(4, local).collective("all_reduce", 100'000).times(4, local),
      Cause::AveragedByHand);
  expect_not_recognised(MadeJob().wrap().times(8, local).collective("all_reduce", 100'000),
                        Cause::AveragedByHand);
  expect_not_recognised(four_steps([&](MadeJob& j) {
                          proper(j);
                          j.times(3, local).collective("all_reduce", 100'000);
                        }),
                        Cause::SomeAveragedByHand);
}

TEST(NoAccusation, ATinyModelAveragedByHand) {
  const auto step = [](MadeJob& j) {
    j.times(2, unsynced).collective("all_reduce", 60).optimizer();
  };
  expect_not_recognised(MadeJob().wrap(1, "", 60).times(4, step), Cause::AveragedByHand);
}

TEST(NoAccusation, LoggingIsNoAverage) {
  const auto step = [](MadeJob& j) {
    j.times(2, unsynced).collective("all_reduce", 4).collective("all_gather", 50'000).optimizer();
  };
  expect_accused(verdict_on(MadeJob().wrap(1, "", 60'000).times(4, step)), VerdictKind::Never);
}

TEST(NoAccusation, AWrapperThatIsNotKnown) {
  const auto step = [](MadeJob& j) { j.times(4, [](MadeJob& k) { k.reducing(); }).optimizer(); };
  expect_not_recognised(MadeJob().times(4, step), Cause::UnknownWrapper);
}

TEST(NoAccusation, RanksThatTrainApart) {
  const auto step = [](MadeJob& j) { j.backward().optimizer(); };
  expect_not_recognised(MadeJob().collective("barrier", 0).times(4, step), Cause::TrainApart);
}

TEST(NoAccusation, WithoutCollectivesNothingIsKnown) {
  const auto step = [](MadeJob& j) { j.times(4, unsynced).optimizer(); };
  expect_not_recognised(MadeJob().times(4, step), Cause::NoCollective);
}

TEST(NoAccusation, ABackwardThatIsToldToSynchronizeUnderNoSync) {
  // Accelerate's trigger_sync_in_backward.
  expect_good(four_steps([](MadeJob& j) {
    j.times(3, unsynced)
        .enter_no_sync()
        .forward(1, "no_sync")
        .leave_no_sync()
        .reducing()
        .optimizer();
  }));
}

TEST(NoAccusation, BackwardsThatAreAllToldToSynchronizeUnderNoSync) {
  const auto step = [](MadeJob& j) {
    j.enter_no_sync().forward(1, "no_sync").forward(1, "no_sync").leave_no_sync();
    j.backward().reducing().optimizer();
  };
  expect_good(MadeJob().wrap(1, "", kBuckets * kBucketBytes).times(4, step));
}

TEST(NoAccusation, LayersThatAreLeftOutBySomeMicroBatches) {
  const auto quiet = [](MadeJob& j, int layers) {
    j.enter_no_sync().forward(1, "no_sync").reducing(layers, 10).leave_no_sync();
  };
  const auto step = [&](MadeJob& j) {
    quiet(j, 3);
    quiet(j, 5);
    j.forward().reducing(7, kBucketBytes).optimizer();
  };
  expect_good(MadeJob().wrap(1, "", 7 * kBucketBytes).times(4, step));
}

TEST(NoAccusation, AnOptimizerThatIsGivenAClosure) {
  expect_good(four_steps([](MadeJob& j) {
    j.times(3, unsynced);
    j.begin(EventKind::OptimizerStep).forward().reducing().end();
  }));
}

TEST(NoAccusation, ShortLastWindows) {
  expect_good(four_steps(
      [](MadeJob& j) { j.times(2, proper).times(1, unsynced).forward().reducing().optimizer(); }));
}

TEST(NoAccusation, TheFirstStepDoesNotCount) {
  MadeJob job;
  job.wrap().times(4, synced).optimizer();
  expect_good(job.times(2, proper));
}

TEST(NoAccusation, AJobThatEndsInTheMiddleOfAStep) {
  expect_good(four_steps(proper).times(2, synced));
}

}  // namespace
}  // namespace gradsync::watch
