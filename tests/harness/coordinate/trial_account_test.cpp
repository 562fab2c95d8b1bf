// The suite's own judgement of an account, on gradients made up.
#include "harness/coordinate/trial_account.h"

#include <gmock/gmock.h>

#include "tests/harness/account/made_account.h"
#include "tests/harness/report/golden.h"

namespace gradsync::coordinate {
namespace {

using gradsync::test::MadeAccount;
using ::testing::HasSubstr;

// As the suite records them: who has which parameter is known, and told by no value.
std::vector<account::AccountRecords> records_of(const MadeAccount& made, unsigned seed = 1) {
  auto ranks = made.records(seed);
  for (account::AccountRecords& rank : ranks) {
    for (account::ParameterRecord& parameter : rank.parameters) parameter.value = {};
  }
  return ranks;
}

JudgedAccount judged(const MadeAccount& made) {
  return judge_trial_account(records_of(made), false);
}

// The records without synchronization: rank r reads its own gradients.
std::vector<account::AccountRecords> separate(const MadeAccount& made) {
  auto ranks = records_of(made);
  for (account::AccountRecords& rank : ranks) {
    for (account::ParameterRecord& parameter : rank.parameters) {
      parameter.gradient = {};
      for (const account::Contribution& each : parameter.contributions) {
        account::add(parameter.gradient, each.sketch);
      }
    }
  }
  return ranks;
}

TEST(TrialAccount, EqualWeightsAreRight) {
  for (const bool is_sharded : {false, true}) {
    const JudgedAccount out = judged({.ranks = 4, .is_sharded = is_sharded});
    EXPECT_EQ(out.off, "");
    ASSERT_TRUE(out.account);
    EXPECT_EQ(out.account->kind, "equal");
    EXPECT_NEAR(out.account->weight_min, 1, 1e-6);
    EXPECT_NEAR(out.account->weight_max, 1, 1e-6);
    EXPECT_NEAR(out.account->factor, 1, 1e-6);
    EXPECT_LT(out.account->left_over, 1e-6);
    EXPECT_GT(out.account->condition, 1);
    EXPECT_EQ(out.account->contributions, 16);
    EXPECT_EQ(out.account->parameters, 2);
  }
}

TEST(TrialAccount, AMicroBatchThatWeighsMoreIsOff) {
  const MadeAccount made{.micro_batches = 4,
                         .weight = [](int, int, int m) { return m == 2 ? 1.02 : 1.0; }};
  const JudgedAccount out = judged(made);
  gradsync::test::expect_phrases("coordinate", {out.off});
  EXPECT_NEAR(out.account->weight_max / out.account->weight_min, 1.02, 1e-6);
}

TEST(TrialAccount, AMicroBatchThatIsDroppedIsOff) {
  const MadeAccount made{.weight = [](int, int, int m) { return m == 0 ? 0.0 : 1.0; }};
  gradsync::test::expect_phrases("coordinate", {judged(made).off});
}

TEST(TrialAccount, ACommonFactorIsOffInTheSuitesOwnLoss) {
  const JudgedAccount out = judged({.weight = [](int, int, int) { return 2.0; }});
  gradsync::test::expect_phrases("coordinate", {out.off});
  EXPECT_NEAR(out.account->factor, 2, 1e-6);
  EXPECT_NEAR(out.account->weight_max, 1, 1e-6);
}

TEST(TrialAccount, AFactorOfSomeParametersIsOff) {
  const JudgedAccount out = judged({.weight = [](int p, int, int) { return p == 1 ? 2.0 : 1.0; }});
  EXPECT_THAT(out.off, HasSubstr("x the rest"));
}

TEST(TrialAccount, WhatIsNoSumIsOff) {
  const MadeAccount made{.besides = [](double value) { return 0.5 * value; }};
  gradsync::test::expect_phrases("coordinate", {judged(made).off});
}

TEST(TrialAccount, AMicroBatchWithoutAnyGradientIsOff) {
  auto ranks = records_of({});
  for (account::ParameterRecord& parameter : ranks[1].parameters) {
    parameter.contributions.erase(parameter.contributions.begin() + 3);
  }
  gradsync::test::expect_phrases("coordinate", {judge_trial_account(ranks, false).off});
}

TEST(TrialAccount, AFaultIsOff) {
  auto ranks = records_of({});
  ranks[1].faults = {"the optimizer steps 2 times in a step"};
  gradsync::test::expect_phrases("coordinate", {judge_trial_account(ranks, false).off});
}

TEST(TrialAccount, EqualGradientsAreNotToldApartAndNotOff) {
  const JudgedAccount out = judged({.is_the_same_batch = true});
  EXPECT_EQ(out.off, "");
  EXPECT_EQ(out.account->kind, "not_told_apart");
  EXPECT_EQ(out.account->contributions, 0);
  EXPECT_FALSE(std::isfinite(out.account->condition));
}

TEST(TrialAccount, RanksThatReadTheirOwnAreRightWhereNothingIsSynchronized) {
  const auto ranks = separate({});
  const JudgedAccount out = judge_trial_account(ranks, true);
  EXPECT_EQ(out.off, "");
  EXPECT_EQ(out.account->kind, "separate");
  EXPECT_NEAR(out.account->factor, 1, 1e-6);
  EXPECT_NEAR(out.account->weight_min, 1, 1e-6);
  EXPECT_THAT(judge_trial_account(ranks, false).off, HasSubstr("every rank reads"));
}

TEST(TrialAccount, RanksThatReadTheMeanAreOffWhereNothingIsSynchronized) {
  EXPECT_NE(judge_trial_account(records_of({}), true).off, "");
}

TEST(TrialAccount, StagesAreJudgedEachByItself) {
  auto ranks = records_of({});
  for (account::AccountRecords& rank : ranks) {
    rank.steps[0].optimizer = rank.rank;
    for (account::ParameterRecord& parameter : rank.parameters) parameter.optimizer = rank.rank;
  }
  for (account::AccountRecords& rank : ranks) {
    for (account::ParameterRecord& parameter : rank.parameters) {
      parameter.gradient = {};
      for (const account::Contribution& each : parameter.contributions) {
        account::add(parameter.gradient, each.sketch);
      }
    }
  }
  const JudgedAccount out = judge_trial_account(ranks, false);
  EXPECT_EQ(out.off, "");
  EXPECT_EQ(out.account->contributions, 8);
  EXPECT_EQ(out.account->parameters, 4);
  EXPECT_NEAR(out.account->factor, 1, 1e-6);
}

TEST(TrialAccount, TooFewNumbersAreNoAccount) {
  const JudgedAccount out = judged({.micro_batches = 8, .elements = {10}});
  EXPECT_EQ(out.off, "");
  EXPECT_FALSE(out.account);
  EXPECT_THAT(out.account.why_not(), HasSubstr("too few"));
}

}  // namespace
}  // namespace gradsync::coordinate
