// Jobs whose steps are not all of one kind: windows that are dropped, cut short, or clipped apart.
//
// Covers: account_words.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/account/account_verdict.h"
#include "tests/harness/account/made_account.h"
#include "tests/harness/report/golden.h"

namespace gradsync::account {
namespace {

using test::joined;
using test::MadeAccount;
using Records = std::vector<AccountRecords>;

const GradientCall kCleared{GradientCallKind::ZeroGrad, 2, "/home/me/train.py", 48};

// Steps in which the first `lost` micro-batches weigh 0, and 4 count; all ran from one place.
Records dropping(int lost, int steps = 1) {
  MadeAccount job;
  job.micro_batches = lost + 4;
  job.steps = steps;
  job.weight = [=](int, int, int m) { return m < lost ? 0.0 : 1.0; };
  Records records = job.records();
  for (AccountRecords& process : records) {
    for (AccountedStep& step : process.steps) {
      step.places.assign(static_cast<std::size_t>(lost) + 4, 0);
      step.functions = step.places;
      step.calls = {kCleared};
      step.calls[0].after = lost;
    }
  }
  return records;
}

Records usual_and(const Records& others, int steps = 7) {
  MadeAccount usual;
  usual.steps = steps;
  return joined(usual.records(), others);
}

template <typename Change>
Records changed(Records records, Change change) {
  for (AccountRecords& process : records) {
    std::for_each(process.steps.begin(), process.steps.end(), change);
  }
  return records;
}

TEST(JobAccount, AWindowThatIsDroppedIsOffHoweverRareItIs) {
  const auto account = account_of(usual_and(dropping(2, 5)));
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Equal);
  EXPECT_EQ(account.alike, 7);
  const AccountVerdict& dropped = account.verdicts.at(1);
  EXPECT_EQ(dropped.kind, AccountKind::Dropped);
  EXPECT_EQ(dropped.steps, 5);
  EXPECT_EQ(dropped.lost, 2);
  EXPECT_TRUE(dropped.is_off);
  test::expect_phrases("account", {dropped.sentence});
}

TEST(JobAccount, ARankThatSteppedAndLeftNoAccountIsNamed) {
  Records records = MadeAccount{}.records();
  records[1] = {};
  records[1].faults = {"its file cannot be read"};
  const auto account = account_of(records, {.cleared = {}, .stepped = {0, 1}});
  EXPECT_EQ(account.lost, std::vector{1});
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Unknown);
  test::expect_phrases("account", {account.verdicts.front().sentence});
  EXPECT_TRUE(account_of(records, {.cleared = {}, .stepped = {0}}).lost.empty())
      << "it may be on another host";
  EXPECT_TRUE(account_of(MadeAccount{}.records(), {.cleared = {}, .stepped = {0, 1}}).lost.empty());
}

TEST(JobAccount, StepsThatWereNotAccountedMayShowThatWindowsAreDropped) {
  const Records records = usual_and(dropping(2));
  EXPECT_FALSE(is_off(account_of(records)));
  EXPECT_TRUE(is_off(account_of(records, {.cleared = {{2, 5}}})));
  EXPECT_FALSE(is_off(account_of(records, {.cleared = {{1, 3}, {2, 2}}})));
}

TEST(JobAccount, WindowsThatMayBeDroppedOnPurposeAreToldAndAccuseNobody) {
  const Records clipped = changed(dropping(2, 3), [](AccountedStep& step) {
    step.calls.insert(step.calls.begin(), {GradientCallKind::ClipNorm, 2, "train.py", 30});
  });
  const Records elsewhere =
      changed(dropping(2, 3), [](AccountedStep& step) { step.places = {0, 0, 1, 1, 1, 1}; });
  const Records used = changed(dropping(2, 3), [](AccountedStep& step) { step.is_used = true; });
  const Records unknown = changed(dropping(2, 3), [](AccountedStep& step) { step.places.clear(); });
  for (const Records& records : {clipped, elsewhere, used, unknown, dropping(2), dropping(4, 3),
                                 joined(dropping(1, 2), dropping(2, 2))}) {
    const auto account = account_of(usual_and(records));
    EXPECT_EQ(account.verdicts.at(1).kind, AccountKind::Dropped);
    EXPECT_FALSE(is_off(account));
  }
  test::expect_phrases("account", {account_of(usual_and(dropping(4, 3))).verdicts.at(1).why});
}

TEST(JobAccount, WhoSetsGradientsToZeroMayHaveReadThemForSomethingElse) {
  const auto by_hand = [](std::vector<int> places) {
    return account_of(changed(dropping(1, 3), [=](AccountedStep& step) {
      step.calls[0].what = GradientCallKind::SetToZero;
      step.places = places;
    }));
  };
  EXPECT_TRUE(is_off(by_hand({0, 0, 0, 0, 0})));
  EXPECT_FALSE(is_off(by_hand({0, 1, 1, 1, 1})));
}

TEST(JobAccount, MicroBatchesOfAnotherFunctionAccuseNobody) {
  const Records records = changed(dropping(1, 3), [](AccountedStep& step) {
    step.functions = {0, 1, 1, 1, 1};
  });
  const auto account = account_of(records);
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::Dropped);
  EXPECT_FALSE(is_off(account));
  test::expect_phrases("account", {account.verdicts.front().why});
  EXPECT_TRUE(is_off(account_of(dropping(1, 3))));
}

// Steps whose losses are means over micro-batches, divided by 4.
Records divided_by_4(int micro_batches, int steps) {
  MadeAccount job;
  job.micro_batches = micro_batches;
  job.steps = steps;
  return changed(job.records(), [=](AccountedStep& step) {
    step.loss_weights.assign(static_cast<std::size_t>(micro_batches), 0.25);
  });
}

TEST(JobAccount, ADivisorThatIsNotTheStepsOwnIsAccused) {
  const auto account = account_of(joined(divided_by_4(4, 6), divided_by_4(2, 2)));
  EXPECT_TRUE(is_off(account));
  EXPECT_EQ(account.verdicts.at(1).kind, AccountKind::Windows);
  EXPECT_EQ(account.verdicts.at(1).steps, 2);
  test::expect_phrases("account", {account.verdicts.at(1).sentence});
  EXPECT_FALSE(is_off(account_of(joined(divided_by_4(4, 6), divided_by_4(2, 1)))))
      << "one alone, as at the end of the data";
  EXPECT_FALSE(is_off(account_of(joined(divided_by_4(3, 6), divided_by_4(2, 2)))))
      << "no step takes the mean";
}

TEST(JobAccount, AStepCutShortIsToldWithWhatMakesUpForIt) {
  MadeAccount last;
  last.steps = 3;
  last.micro_batches = 2;
  for (const double weight : {2.0, 1.0, 3.0}) {
    last.weight = [=](int, int, int) { return weight; };
    const auto account = account_of(usual_and(last.records(), 6));
    EXPECT_FALSE(is_off(account));
    const AccountVerdict& verdict = account.verdicts.at(1);
    EXPECT_EQ(verdict.kind, AccountKind::Equal);
    EXPECT_EQ(verdict.steps, 3);
    EXPECT_EQ(account.verdicts.size(), 2U);
    const std::string said = verdict.sentence;
    test::expect_phrases(
        "account", {said.substr(0, said.find(" within")), "..." + said.substr(said.find('%') + 1)});
  }
}

TEST(JobAccount, ManyKindsOfGoodStepsAreToldTogether) {
  Records records = MadeAccount{.steps = 3}.records();
  for (const int micro_batches : {1, 2, 3, 5}) {
    MadeAccount job;
    job.micro_batches = micro_batches;
    records = joined(std::move(records), job.records());
  }
  const auto account = account_of(records);
  ASSERT_EQ(account.verdicts.size(), 2U);
  EXPECT_EQ(account.verdicts[1].steps, 4);
  test::expect_phrases("account", {account.verdicts[1].sentence});
}

// Each rank's part of what is read has a factor of its own.
Records scaled_apart(MadeAccount job, std::vector<double> factors) {
  job.is_sharded = true;
  job.ranks = static_cast<int>(factors.size());
  job.steps = 2;
  Records records = job.records();
  for (AccountRecords& process : records) {
    for (ParameterRecord& record : process.parameters) {
      for (double& each : record.gradient) each *= factors[static_cast<std::size_t>(process.rank)];
    }
  }
  return records;
}

TEST(JobAccount, ShardsThatWereScaledApartAreOff) {
  const auto account = account_of(scaled_apart({}, {0.5, 0.05, 1}));
  EXPECT_EQ(account.verdicts.front().kind, AccountKind::ShardsApart);
  EXPECT_TRUE(is_off(account));
  const auto& shards = account.shown.groups.at(0).shards;
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_NEAR(shards[0].factor, 10, 1e-3);
  EXPECT_NEAR(shards[1].factor, 1, 1e-9);
  EXPECT_NEAR(shards[2].factor, 20, 1e-3);
  test::expect_phrases("account",
                       {account.verdicts.front().sentence, account.verdicts.front().why});
}

TEST(JobAccount, ShardsOfOneParameterAreOffWhereTheyWereClipped) {
  MadeAccount flat;
  flat.elements = {4000};
  const Records records = scaled_apart(flat, {1, 0.1});
  EXPECT_EQ(account_of(records).verdicts.front().kind, AccountKind::ShardsApart);
  EXPECT_FALSE(is_off(account_of(records)));
  const auto account = account_of(changed(records, [](AccountedStep& step) {
    step.calls = {{GradientCallKind::ClipNorm, 4, "/home/me/train.py", 61}};
  }));
  EXPECT_TRUE(is_off(account));
  test::expect_phrases("account",
                       {account.verdicts.front().sentence, account.verdicts.front().why});
}

TEST(JobAccount, ShardsWithOneFactorAreASum) {
  EXPECT_EQ(account_of(scaled_apart({}, {0.1, 0.1})).verdicts.front().kind, AccountKind::Equal);
}

TEST(JobAccount, ClippingSaysWhyAGradientIsNoSum) {
  MadeAccount job;
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  job.besides = [&](double) { return normal(engine); };
  const Records records = job.records();
  const auto clipped = [&](GradientCallKind what, std::vector<int> behind) {
    return account_of(changed(records, [&](AccountedStep& step) {
      for (const int after : behind) step.calls.push_back({what, after, "/home/me/train.py", 61});
    }));
  };
  const auto why_of = [&](GradientCallKind what, std::vector<int> behind) {
    return clipped(what, std::move(behind)).verdicts.front().why;
  };
  test::expect_phrases("account", {why_of(GradientCallKind::ClipValue, {1, 2, 3, 4}),
                                   why_of(GradientCallKind::ClipNorm, {1, 2, 3, 4}),
                                   why_of(GradientCallKind::ClipNorm, {2}),
                                   why_of(GradientCallKind::ClipValue, {4})});
  EXPECT_EQ(why_of(GradientCallKind::ClipNorm, {4}), "");
  // Off where a micro-batch adds to what was clipped before it.
  EXPECT_TRUE(is_off(clipped(GradientCallKind::ClipValue, {1, 2, 3, 4})));
  EXPECT_TRUE(is_off(clipped(GradientCallKind::ClipNorm, {2})));
  EXPECT_FALSE(is_off(clipped(GradientCallKind::ClipValue, {4})));
  EXPECT_FALSE(is_off(account_of(records)));
  EXPECT_FALSE(is_off(account_of(changed(records, [](AccountedStep& step) {
    step.calls = {{GradientCallKind::ClipValue, 2, "", 0}};
    step.comm_hook = "of_the_job";
  }))));
}

TEST(JobAccount, WhatALibraryCallsIsNamedWithIt) {
  MadeAccount job;
  job.weight = [](int, int, int micro_batch) { return micro_batch == 3 ? 1.0 : 0.0; };
  const auto verdict = account_of(changed(job.records(), [](AccountedStep& step) {
                         step.calls = {{GradientCallKind::ZeroGrad, 3, "/home/me/train.py", 30,
                                        "skorch/net.py", 1011}};
                       })).verdicts.front();
  test::expect_phrases("account", {verdict.sentence});
}

}  // namespace
}  // namespace gradsync::account
