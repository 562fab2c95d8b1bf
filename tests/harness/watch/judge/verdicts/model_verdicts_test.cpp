// Jobs that train several models.
// Covers: steps/by_model.cpp.
#include "harness/watch/judge/verdicts/model_verdicts.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/examined.h"
#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<ModelVerdict> models_in(const MadeJob& job) {
  const RankEvents process = job.process();
  return judge_models(process, cut_into_steps(process.events));
}

// Model 2 steps by itself behind `count` micro-batches of its own, each synchronized; model 1 does
// what it should.
MadeJob with_a_critic(int count) {
  return MadeJob().wrap(1).wrap(2).times(4, [&](MadeJob& j) {
    j.times(count, [](MadeJob& k) { k.forward(2).reducing(); }).optimizer().zero_grad();
    j.forward(1).reducing().optimizer().zero_grad();
  });
}

TEST(ModelVerdicts, TheWorstComesFirst) {
  const auto models = models_in(with_a_critic(3));
  ASSERT_THAT(models, SizeIs(2));
  EXPECT_EQ(models[0].verdict.kind, VerdictKind::MoreThanOnce);
  EXPECT_EQ(models[1].verdict.kind, VerdictKind::OncePerStep);
  EXPECT_EQ(model_text(models[0]), "DistributedDataParallel of train.py line 21");
}

TEST(ModelVerdicts, OneThatIsToBeChangedIsTheJobs) {
  const RankEvents process = with_a_critic(3).process();
  const Examined rank(process);
  EXPECT_EQ(rank.verdicts.front().kind, VerdictKind::MoreThanOnce);
  EXPECT_THAT(rank.verdicts.front().sentence,
              StartsWith("DistributedDataParallel of train.py line 21: synchronizes in every"));
  EXPECT_TRUE(rank.verdicts.front().fails);
}

TEST(ModelVerdicts, OfModelsThatDoWhatTheyShouldNothingIsToBeChanged) {
  const auto models = models_in(with_a_critic(1));
  EXPECT_THAT(models, SizeIs(2));
  for (const ModelVerdict& model : models) {
    EXPECT_EQ(model.verdict.kind, VerdictKind::OncePerStep);
  }
}

TEST(ModelVerdicts, OneModelHasTheVerdictOfTheJobAlone) {
  EXPECT_THAT(models_in(four_steps(baseline)), IsEmpty());
}

// As a generator, whose backward goes through the critic.
TEST(ModelVerdicts, ModelsThatShareMicroBatchesAreJudgedTogether) {
  const MadeJob job = MadeJob().wrap(1).wrap(2).times(4, [](MadeJob& j) {
    j.forward(2).reducing().optimizer().zero_grad();
    j.forward(1).forward(2).reducing().optimizer().zero_grad();
  });
  EXPECT_THAT(models_in(job), IsEmpty());
}

// Model 1 accumulates over four steps of the optimizer of model 2.
TEST(ModelVerdicts, AModelWhoseOptimizerStepsLessOftenIsNotAccused) {
  const MadeJob job = MadeJob().wrap(1).wrap(2).times(4, [](MadeJob& j) {
    j.times(3, [](MadeJob& k) { k.times(1, unsynced).forward(2).reducing().optimizer(); });
    j.forward(1).reducing().forward(2).reducing().optimizer().optimizer();
  });
  const auto models = models_in(job);
  EXPECT_THAT(models, SizeIs(2));
  for (const ModelVerdict& model : models) {
    EXPECT_FALSE(model.verdict.fails) << model.verdict.sentence;
    EXPECT_NE(model.verdict.kind, VerdictKind::SomeStepsNever);
  }
}

TEST(ModelVerdicts, WithoutTheHookNobodyKnowsWhichModelRan) {
  EXPECT_THAT(models_in(four_steps(
                  [](MadeJob& j) { j.forward(0).reducing().forward(0).reducing().optimizer(); })),
              IsEmpty());
}

}  // namespace
}  // namespace gradsync::watch
