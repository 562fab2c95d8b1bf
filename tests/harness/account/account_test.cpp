// Jobs whose weights are known, and the verdicts on them.
//
// Covers: account_verdict.cpp, sought.cpp, weight_groups.cpp, weight_words.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/account/account_verdict.h"
#include "tests/harness/account/made_account.h"
#include "tests/harness/report/golden.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;
using test::MadeAccount;

AccountVerdict verdict_on(const MadeAccount& job, unsigned seed = 1) {
  return account_of(job.records(seed)).verdicts.front();
}

TEST(GradientAccount, WeightsAreRecoveredForManyRanksAndMicroBatches) {
  for (const bool is_sharded : {false, true}) {
    for (const int ranks : {1, 2, 4, 8}) {
      for (const int micro_batches : {1, 3, 16}) {
        MadeAccount job;
        job.ranks = ranks;
        job.micro_batches = micro_batches;
        job.elements = {700, 900, 5000, 64, 333};
        job.is_sharded = is_sharded && ranks > 1;
        job.weight = [](int, int rank, int m) { return 1 + 0.1 * rank + m; };
        const auto steps = solve_accounts(job.records());
        ASSERT_EQ(steps.at(0).groups.size(), 1U);
        const WeightGroup& group = steps[0].groups[0];
        for (int r = 0; r < ranks; ++r) {
          for (int m = 0; m < micro_batches; ++m) {
            const FittedWeight& each =
                group.weights[static_cast<std::size_t>(r)][static_cast<std::size_t>(m)];
            EXPECT_NEAR(each.weight * ranks, 1 + 0.1 * r + m, 1e-6);
          }
        }
      }
    }
  }
}

TEST(GradientAccount, EqualWeightsAreGood) {
  const auto account = account_of(MadeAccount{}.records());
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Equal);
  test::expect_phrases("account", {account.verdicts.front().sentence.substr(0, 27)});
  EXPECT_EQ(account.verdicts.size(), 1U);
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, OnlyTheLastCounts) {
  MadeAccount job;
  job.weight = [](int, int, int m) { return m == 3 ? 4.0 : 0.0; };
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, AccountKind::Dropped);
  test::expect_phrases("account", {verdict.sentence});
  EXPECT_TRUE(verdict.is_off);
}

TEST(GradientAccount, WeightsThatDoubleAreTold) {
  MadeAccount job;
  job.weight = [](int, int, int m) { return std::exp2(3 - m); };
  EXPECT_EQ(verdict_on(job).sentence, "micro-batches weigh 8 4 2 1");
}

TEST(GradientAccount, AStageOfAPipelineMayCountForNothingInAnothersParameters) {
  MadeAccount job;
  job.weight = [](int, int rank, int) { return rank == 1 ? 0.0 : 1.0; };
  EXPECT_TRUE(is_off(account_of(job.records())));
  const auto account = account_of(job.records(), {.cleared = {}, .has_activations = true});
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::RankLost);
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, ARankThatCountsForNothingIsNamed) {
  MadeAccount job;
  job.weight = [](int, int rank, int) { return rank == 1 ? 0.0 : 1.0; };
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, AccountKind::RankLost);
  test::expect_phrases("account", {verdict.sentence});
  EXPECT_TRUE(verdict.is_off);
}

// The drawings have fp32's rounding and micro-batches that are little to very much alike. The
// factor is seen in at least 99 of 100, and no drawing without it is accused.
TEST(GradientAccount, AFactorOf1p02OnOneOfEightIsSeen) {
  constexpr unsigned kDrawings = 250;
  for (const double alike : {0.0, 0.5, 0.9, 0.99}) {
    int seen = 0;
    for (unsigned seed = 0; seed < kDrawings; ++seed) {
      MadeAccount job;
      job.ranks = 1;
      job.micro_batches = 8;
      job.alike = alike;
      job.rounding = 3e-7;
      EXPECT_EQ(verdict_on(job, seed).kind, AccountKind::Equal) << alike << " " << seed;
      job.weight = [](int, int, int m) { return m == 2 ? 1.02 : 1.0; };
      const AccountVerdict verdict = verdict_on(job, seed);
      seen += verdict.is_off && verdict.sentence == "micro-batch 3 of 8 weighs 1.02 x the others";
    }
    EXPECT_GE(seen, 0.99 * kDrawings) << alike;
  }
}

// The reported error is that of the weights, also where they are known less well: over drawings
// with much rounding the standard deviation, in errors, is 1 within 10 %.
TEST(GradientAccount, ErrorsAreTheStandardDeviationOfWeights) {
  MadeAccount job;
  job.micro_batches = 8;
  job.alike = 0.9;
  job.rounding = 1e-4;
  double squares = 0;
  int count = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const auto steps = solve_accounts(job.records(seed));
    for (const auto& of_rank : steps.at(0).groups.at(0).weights) {
      for (const FittedWeight& each : of_rank) {
        const double off = (each.weight - 0.5) / each.error;
        squares += off * off;
        ++count;
      }
    }
  }
  EXPECT_NEAR(std::sqrt(squares / count), 1, 0.1);
}

TEST(GradientAccount, ParametersWithAFactorOfTheirOwnAreNamed) {
  MadeAccount job;
  job.weight = [](int parameter, int, int) { return parameter == 0 ? 2.0 : 1.0; };
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.sentence, "layer0 weighs 2 x the rest");
  EXPECT_TRUE(verdict.is_off);
}

TEST(GradientAccount, ACommonFactorIsToldAndNotAccused) {
  MadeAccount job;
  job.ranks = 4;
  job.micro_batches = 3;
  job.weight = [](int, int, int) { return 4.0; };
  const auto account = account_of(job.records());
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Equal);
  EXPECT_EQ(account.verdicts.at(1).sentence,
            "all weigh 4 x what the loss says: summed over 4 ranks, not averaged");
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, ClippingIsACommonFactor) {
  MadeAccount job;
  job.weight = [](int, int, int) { return 0.01; };
  auto records = job.records();
  for (auto& process : records) process.steps[0].clippings = 1;
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.at(1).sentence, "a common factor of 0.01: gradients are clipped");
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, TheSameBatchOnAllRanksIsNeverGood) {
  MadeAccount job;
  job.is_the_same_batch = true;
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, AccountKind::NotToldApart);
  test::expect_phrases("account", {verdict.sentence});
}

TEST(GradientAccount, WhatIsNoSumIsToldWithHowMuchIsLeftOver) {
  MadeAccount job;
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  job.besides = [&](double) { return normal(engine); };
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, AccountKind::NotASum);
  EXPECT_NE(verdict.sentence.find("is left over"), std::string::npos);
  EXPECT_EQ(verdict.why, "");
  EXPECT_FALSE(verdict.is_off);
}

TEST(GradientAccount, WeightDecayInTheGradientExplainsWhatIsLeftOver) {
  MadeAccount job;
  job.besides = [](double value) { return 0.1 * value; };
  EXPECT_EQ(verdict_on(job).kind, AccountKind::NotASum);
  test::expect_phrases("account", {verdict_on(job).why});
}

TEST(GradientAccount, AGradientOfTheStepBeforeIsKnown) {
  MadeAccount job;
  job.steps = 4;
  job.late = 1;
  const AccountVerdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, AccountKind::NotASum);
  test::expect_phrases("account", {verdict.why});
  EXPECT_TRUE(verdict.is_off);
}

TEST(GradientAccount, WhatIsNotClearedIsKnownForWhatItIs) {
  MadeAccount job;
  job.steps = 4;
  job.kept = 1;
  const auto account = account_of(job.records());
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::NotASum);
  EXPECT_TRUE(is_off(account));
  test::expect_phrases("account", {account.verdicts.front().why});
  job.kept = 0.9;
  EXPECT_FALSE(is_off(account_of(job.records()))) << "momentum";
}

TEST(GradientAccount, GradientsThatAreClippedWhileTheyAreScaledAreAccused) {
  MadeAccount job;
  job.weight = [](int, int, int) { return 1e-4; };
  auto records = job.records();
  const auto said = [&](double max_norm, double scaled_after, double clipped_by) {
    for (AccountRecords& process : records) {
      for (AccountedStep& step : process.steps) {
        step.clippings = 1;
        step.max_norm = max_norm;
        step.scaled_after = scaled_after;
        step.clipped_by = clipped_by;
        step.calls = {{GradientCallKind::ClipNorm, 4, "/home/me/train.py", 61}};
      }
    }
    return account_of(records);
  };
  const auto account = said(0.5, 1.0 / 1024, 0.1);
  EXPECT_TRUE(is_off(account));
  EXPECT_EQ(account.verdicts.at(1).kind, AccountKind::Factor);
  test::expect_phrases("account", {account.verdicts.at(1).sentence, account.verdicts.at(1).why});
  EXPECT_FALSE(is_off(said(512, 1.0 / 1024, 0.1))) << "the norm was scaled, too";
  EXPECT_FALSE(is_off(said(0.5, 1.0 / 1024, 1))) << "it changed nothing";
  EXPECT_FALSE(is_off(said(0.5, 1.0 / 1000, 0.1))) << "no scale of mixed precision";
}

TEST(GradientAccount, WhatEachRankHasAloneWeighsMore) {
  MadeAccount job;
  job.weight = [](int p, int, int) { return p == 0 ? 2.0 : 1.0; };
  auto records = job.records();
  for (AccountRecords& process : records) {
    ParameterRecord& own = process.parameters.front();
    own.value[0] += process.rank;
    own.gradient = {};
    for (const Contribution& each : own.contributions) add(own.gradient, each.sketch);
  }
  EXPECT_FALSE(is_off(account_of(records)));
  EXPECT_EQ(account_of(records).verdicts.front().kind, AccountKind::GroupsDiffer);
  SeenBeside beside;
  beside.exchanges_activations = true;
  EXPECT_TRUE(is_off(account_of(records, beside))) << "an expert's";
}

TEST(GradientAccount, RanksThatReadTheirOwnGradientAreToldApart) {
  auto records = MadeAccount{}.records();
  MadeAccount own;
  own.weight = [](int, int rank, int) { return rank == 0 ? 2.0 : 0.0; };
  records[0] = own.records()[0];
  own.weight = [](int, int rank, int) { return rank == 1 ? 2.0 : 0.0; };
  records[1] = own.records()[1];
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Separate);
  test::expect_phrases("account", {account.verdicts.front().sentence});
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, TheFirstStepInWhichRanksHaveDriftedIsTold) {
  MadeAccount job;
  job.steps = 4;
  auto records = job.records();
  EXPECT_EQ(account_of(records).verdicts.size(), 1U);
  for (ParameterRecord& record : records[1].parameters) {
    if (record.step >= 2 && record.index == 1) record.value[5] *= 1.001;
  }
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.at(0).kind, AccountKind::Equal);
  test::expect_phrases("account", {account.verdicts.at(1).sentence});
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, ARankThatIsMissingLeavesItUnknown) {
  auto records = MadeAccount{}.records();
  records.pop_back();
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Unknown);
  EXPECT_EQ(account.verdicts.front().sentence, "1 of 2 ranks were recorded");
}

TEST(GradientAccount, GradientsThatWereUsedBeforeTheyWereClearedAccuseNobody) {
  MadeAccount job;
  job.weight = [](int, int, int m) { return m == 0 ? 0.0 : 1.0; };
  auto records = job.records();
  for (auto& process : records) process.steps[0].is_used = true;
  EXPECT_FALSE(is_off(account_of(records)));
}

TEST(GradientAccount, FewerStepsThanHalfAccuseNobody) {
  MadeAccount job;
  job.steps = 5;
  auto records = job.records();
  MadeAccount odd = job;
  odd.weight = [](int, int, int m) { return m == 0 ? 0.0 : 1.0; };
  const auto odd_records = odd.records();
  for (std::size_t r = 0; r < records.size(); ++r) {
    for (std::size_t i = 0; i < records[r].parameters.size(); ++i) {
      if (records[r].parameters[i].step < 2)
        records[r].parameters[i] = odd_records[r].parameters[i];
    }
  }
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Equal);
  EXPECT_EQ(account.alike, 3);
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, OneOddStepOfTwoIsShownAndAccusesNobody) {
  MadeAccount job;
  job.steps = 2;
  auto records = job.records();
  MadeAccount odd = job;
  odd.weight = [](int, int, int m) { return m == 0 ? 0.0 : 1.0; };
  const auto odd_records = odd.records();
  for (std::size_t r = 0; r < records.size(); ++r) {
    for (std::size_t i = 0; i < job.elements.size(); ++i) {
      records[r].parameters[i] = odd_records[r].parameters[i];
    }
  }
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Dropped);
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, SixteenBitsAreNamedForWhatTheyLose) {
  MadeAccount job;
  job.dtype = "bfloat16";
  job.weight = [](int, int, int m) { return 0.94 + 0.02 * m; };
  const GradientAccount account = account_of(job.records());
  EXPECT_EQ(account.verdicts.front().sentence,
            "gradients of 16 bits: micro-batch 1 counts 6 % less than "
            "micro-batch 4");
  EXPECT_FALSE(is_off(account));
  EXPECT_EQ(account.verdicts.size(), 1U);
}

// Returns the records of a job whose micro-batches weigh in the ratio of these tokens.
std::vector<AccountRecords> weighed_by_tokens(const std::vector<std::int64_t>& tokens) {
  MadeAccount job;
  job.weight = [&](int, int, int m) {
    return static_cast<double>(tokens[static_cast<std::size_t>(m)]) / 100;
  };
  auto records = job.records();
  for (auto& process : records) process.steps[0].tokens = tokens;
  return records;
}

TEST(GradientAccount, WeightsInTheRatioOfTokensAccuseNobody) {
  const auto account = account_of(weighed_by_tokens({100, 50, 150, 100}));
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::ByTokens);
  test::expect_phrases("account", {account.verdicts.front().sentence});
  EXPECT_FALSE(is_off(account));
}

TEST(GradientAccount, RanksThatWeighByTheirTokensAccuseNobody) {
  MadeAccount job;
  job.weight = [](int, int rank, int) { return rank == 0 ? 1.5 : 0.5; };
  auto records = job.records();
  records[0].steps[0].tokens = {20, 40, 30, 60};
  records[1].steps[0].tokens = {5, 15, 10, 20};
  EXPECT_EQ(account_of(records).verdicts.front().kind, AccountKind::ByTokens);
  test::expect_phrases("account", {account_of(records).verdicts.front().sentence});
}

TEST(GradientAccount, TokensThatAreNotAllKnownExcuseNobody) {
  MadeAccount job;
  job.weight = [](int, int rank, int) { return rank == 0 ? 1.5 : 0.5; };
  auto records = job.records();
  records[0].steps[0].tokens = {20, 40, 0, 90};
  records[1].steps[0].tokens = {5, 15, 0, 30};
  EXPECT_TRUE(is_off(account_of(records)));
}

TEST(GradientAccount, WeightsInAnotherRatioAreAccused) {
  for (const std::vector<std::int64_t>& tokens : std::vector<std::vector<std::int64_t>>{
           {100, 100, 100, 100}, {100, 50, 160, 100}, {100, 50, 0, 100}}) {
    auto records = weighed_by_tokens({100, 50, 150, 100});
    for (auto& process : records) process.steps[0].tokens = tokens;
    EXPECT_TRUE(is_off(account_of(records)));
  }
}

TEST(GradientAccount, ALossyCommunicationHookIsNamed) {
  MadeAccount job;
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  job.besides = [&](double) { return normal(engine); };
  auto records = job.records();
  for (const auto& [hook, why] : std::vector<std::pair<std::string, std::string>>{
           {"powerSGD_hook of PowerSGDState", "is lossy: PowerSGD sends less than there is"},
           {"halved", "the communication hook halved sends gradients, and may change them"}}) {
    for (auto& process : records) process.steps[0].comm_hook = hook;
    EXPECT_NE(account_of(records).verdicts.front().why.find(why), std::string::npos);
  }
}

}  // namespace
}  // namespace gradsync::account
