// What is said of jobs, right and wrong; and above all, whom nothing is said against.
#include "harness/watch/verdict.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::testing::kBucketBytes;
using gradsync::testing::kBuckets;
using gradsync::testing::MadeJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Verdict> verdicts_on(const MadeJob& job) {
  const RankEvents process = job.process();
  const Steps steps = cut_into_steps(process.events);
  return judge(process, steps, count_steps(steps));
}

Verdict verdict_on(const MadeJob& job) {
  return verdicts_on(job).front();
}

// Four steps of what `step` adds, of a wrapped model.
template <typename Step>
MadeJob four_steps(Step step, MadeJob job = MadeJob()) {
  return job.wrap().times(4, step);
}

void synced(MadeJob& job) {
  job.forward().reducing();
}

void unsynced(MadeJob& job) {
  job.enter_no_sync().forward(1, "no_sync").backward().leave_no_sync();
}

void proper(MadeJob& job) {
  job.times(3, unsynced).forward().reducing().optimizer().zero_grad();
}

void baseline(MadeJob& job) {
  job.times(4, synced).optimizer().zero_grad();
}

void improper_micro_batch(MadeJob& job) {
  job.forward().enter_no_sync().reducing().leave_no_sync();
}

void expect_accused(const Verdict& verdict, VerdictKind kind) {
  EXPECT_EQ(verdict.kind, kind) << verdict.sentence << ": " << verdict.why;
  EXPECT_TRUE(verdict.fails);
}

void expect_good(const MadeJob& job) {
  const auto verdicts = verdicts_on(job);
  EXPECT_EQ(verdicts.front().kind, VerdictKind::OncePerStep)
      << verdicts.front().sentence << ": " << verdicts.front().why;
  for (const Verdict& verdict : verdicts) EXPECT_FALSE(verdict.fails) << verdict.sentence;
}

void expect_not_recognised(const MadeJob& job, const std::string& why) {
  const Verdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, VerdictKind::NotRecognised) << verdict.sentence << ": " << verdict.why;
  EXPECT_THAT(verdict.why, HasSubstr(why));
  EXPECT_FALSE(verdict.fails);
}

TEST(Verdict, OncePerStepIsGood) {
  const Verdict verdict = verdict_on(four_steps(proper));
  EXPECT_EQ(verdict.kind, VerdictKind::OncePerStep);
  EXPECT_EQ(verdict.sentence, "synchronizes once per optimizer step: good");
  EXPECT_FALSE(verdict.change.has_value());
}

TEST(Verdict, EveryMicroBatchWithoutNoSync) {
  const Verdict verdict = verdict_on(four_steps(baseline));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  EXPECT_EQ(verdict.sentence, "synchronizes in every micro-batch (4 x per step; 1 is enough)");
  EXPECT_EQ(verdict.why, "no no_sync was entered");
  EXPECT_EQ(verdict.change->line, 21);  // of the forward
}

TEST(Verdict, NoSyncRoundBackwardAlone) {
  const Verdict verdict = verdict_on(four_steps(
      [](MadeJob& job) { job.times(3, improper_micro_batch).forward().reducing().optimizer(); }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  EXPECT_EQ(verdict.why, "no_sync encloses backward but not forward, train.py line 11");
  EXPECT_EQ(verdict.change->line, 11);
  EXPECT_EQ(verdict.change->file, "/home/someone/train.py");
}

TEST(Verdict, NoSyncOfAnotherModel) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.enter_no_sync(2, 13).times(3, synced).leave_no_sync(2);
    job.forward().reducing().optimizer();
  }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  EXPECT_THAT(verdict.why, HasSubstr("of another model"));
  EXPECT_EQ(verdict.change->line, 13);
}

TEST(Verdict, SomeMicroBatchesTooMany) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& job) { job.times(2, unsynced).times(2, synced).optimizer(); }));
  expect_accused(verdict, VerdictKind::MoreThanOnce);
  EXPECT_EQ(verdict.sentence, "synchronizes in 2 of 4 micro-batches of a step (1 is enough)");
}

TEST(Verdict, NeverUnderANoSyncThatHoldsAll) {
  const Verdict verdict =
      verdict_on(four_steps([](MadeJob& job) { job.times(4, unsynced).optimizer(); }));
  expect_accused(verdict, VerdictKind::Never);
  EXPECT_EQ(verdict.sentence, "4 micro-batches, never synchronized: ranks drift");
  EXPECT_EQ(verdict.why, "no_sync encloses every micro-batch of a step, train.py line 11");
  EXPECT_EQ(verdict.change->line, 11);
}

TEST(Verdict, NeverUnderAMirroredNoSync) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.times(
        4, [](MadeJob& j) { j.enter_no_sync().forward(1, "no_sync").leave_no_sync().backward(); });
    job.optimizer();
  }));
  expect_accused(verdict, VerdictKind::Never);
  EXPECT_THAT(verdict.why, HasSubstr("no_sync encloses forward though not backward"));
}

TEST(Verdict, NeverWhereTheModuleIsCalledInsteadOfItsWrapper) {
  const Verdict verdict = verdict_on(
      four_steps([](MadeJob& job) { job.times(2, [](MadeJob& j) { j.backward(); }).optimizer(); }));
  expect_accused(verdict, VerdictKind::Never);
  EXPECT_EQ(verdict.why,
            "the model was wrapped, train.py line 5, but the wrapper's forward never ran");
  EXPECT_EQ(verdict.change->line, 5);
}

TEST(Verdict, StepsThatDoNotSynchronizeAmongOthers) {
  const Verdict verdict = verdict_on(four_steps([](MadeJob& job) {
    job.times(2, proper).times(2, unsynced).optimizer();  // the end of an epoch
  }));
  EXPECT_EQ(verdict.kind, VerdictKind::SomeStepsNever);
  EXPECT_EQ(verdict.sentence, "4 of 12 steps never synchronize: ranks drift");
}

void synced_first(MadeJob& job) {
  job.forward().reducing().times(3, unsynced).optimizer().zero_grad();
}

TEST(Verdict, ASynchronizationThatComesTooEarly) {
  const Verdict verdict = verdict_on(four_steps(synced_first));
  expect_accused(verdict, VerdictKind::TooEarly);
  EXPECT_EQ(verdict.sentence, "the last 3 of 4 micro-batches never synchronize: ranks drift");
  EXPECT_EQ(verdict.why, "no_sync encloses the last micro-batch of a step, train.py line 11");
  EXPECT_EQ(verdict.change->what, "leave the last micro-batch of a step out of it");
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
  EXPECT_EQ(verdict.why,
            "set_requires_gradient_sync(False) holds in the last micro-batch, train.py line 41");
}

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
  expect_not_recognised(four_steps(step), "by hand");
}

TEST(NoAccusation, GradientsClearedBehindASynchronization) {
  const auto step = [](MadeJob& j) {
    j.forward().reducing().zero_grad().times(2, unsynced).optimizer();
  };
  expect_not_recognised(four_steps(step), "cleared");
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
  EXPECT_EQ(verdict.sentence,
            "synchronizes once per optimizer step, but more often in 11 of 23 steps");
  EXPECT_EQ(verdict.why, "no no_sync was entered");
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
  EXPECT_EQ(verdict.sentence,
            "FSDP without no_sync: 8 reduce-scatters per step, by choice or mistake");
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
  EXPECT_THAT(verdict.why, HasSubstr("set_requires_gradient_sync(False)"));
  EXPECT_EQ(verdict.change->line, 41);
}

TEST(Verdict, SearchesForUnusedParametersAreToldBesideTheRest) {
  const auto verdicts = verdicts_on(
      MadeJob().wrap(1, "find_unused_parameters=true static_graph=false").times(4, proper));
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(verdicts[0].kind, VerdictKind::OncePerStep);
  EXPECT_EQ(verdicts[1].kind, VerdictKind::UnusedParameters);
  EXPECT_EQ(verdicts[1].sentence, "unused parameters searched in every step");
  EXPECT_EQ(verdicts[1].change->line, 5);
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
  EXPECT_EQ(verdicts[1].sentence, "buffers broadcast in 4 micro-batches of a step (1 is enough)");
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
  EXPECT_THAT(verdict.sentence, HasSubstr("if these are one model's"));
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
                        "share micro-batches");
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
                        "cleared between the micro-batches of a step, train.py line 33");
}

TEST(NoAccusation, OptimizersWithAClosure) {
  expect_not_recognised(
      four_steps([](MadeJob& j) { j.begin(EventKind::OptimizerStep).times(3, synced).end(); }),
      "LBFGS");
}

TEST(NoAccusation, GradientsAveragedByHand) {
  const auto step = [](MadeJob& j) {
    j.times(4, [](MadeJob& k) { k.backward(); }).collective("all_reduce", 100'000).optimizer();
  };
  expect_not_recognised(MadeJob().collective("broadcast", 8).times(4, step), "by hand");
}

TEST(NoAccusation, ParametersAveragedNowAndThen) {
  const auto local = [](MadeJob& j) { j.times(4, unsynced).optimizer(); };
  expect_not_recognised(
      MadeJob().wrap().times(4, local).collective("all_reduce", 100'000).times(4, local),
      "by hand");
  expect_not_recognised(MadeJob().wrap().times(8, local).collective("all_reduce", 100'000),
                        "by hand");
  expect_not_recognised(four_steps([&](MadeJob& j) {
                          proper(j);
                          j.times(3, local).collective("all_reduce", 100'000);
                        }),
                        "by hand");
}

TEST(NoAccusation, ATinyModelAveragedByHand) {
  const auto step = [](MadeJob& j) {
    j.times(2, unsynced).collective("all_reduce", 60).optimizer();
  };
  expect_not_recognised(MadeJob().wrap(1, "", 60).times(4, step), "by hand");
}

TEST(NoAccusation, LoggingIsNoAverage) {
  const auto step = [](MadeJob& j) {
    j.times(2, unsynced).collective("all_reduce", 4).collective("all_gather", 100'000).optimizer();
  };
  expect_accused(verdict_on(MadeJob().wrap(1, "", 60'000).times(4, step)), VerdictKind::Never);
}

TEST(NoAccusation, AWrapperThatIsNotKnown) {
  const auto step = [](MadeJob& j) { j.times(4, [](MadeJob& k) { k.reducing(); }).optimizer(); };
  expect_not_recognised(MadeJob().times(4, step), "another wrapper");
}

TEST(NoAccusation, RanksThatTrainApart) {
  const auto step = [](MadeJob& j) { j.backward().optimizer(); };
  expect_not_recognised(MadeJob().collective("barrier", 0).times(4, step), "apart");
}

TEST(NoAccusation, WithoutCollectivesNothingIsKnown) {
  const auto step = [](MadeJob& j) { j.times(4, unsynced).optimizer(); };
  expect_not_recognised(MadeJob().times(4, step), "no collective was seen");
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

TEST(Verdict, KindsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(VerdictKind::NotRecognised); ++i) {
    names.insert(to_string(static_cast<VerdictKind>(i)));
    EXPECT_EQ(verdict_kind(to_string(static_cast<VerdictKind>(i))), static_cast<VerdictKind>(i));
  }
  EXPECT_EQ(verdict_kind("fine"), std::nullopt);
  EXPECT_THAT(names, SizeIs(11));
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
