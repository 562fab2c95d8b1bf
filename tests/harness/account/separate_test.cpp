// Ranks that read their own gradients alone: where they train one model, and where they may not.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/account/account_verdict.h"
#include "tests/harness/account/made_account.h"
#include "tests/harness/report/golden.h"

namespace gradsync::account {
namespace {

using test::MadeAccount;
using Records = std::vector<AccountRecords>;

constexpr int kSteps = 4;

// Each rank reads what its own micro-batches add to parameters from `first` on, and has them
// otherwise than the others from the second step on.
Records apart_from(int first) {
  Records records(2);
  for (int reader = 0; reader < 2; ++reader) {
    MadeAccount own;
    own.steps = kSteps;
    own.weight = [=](int parameter, int rank, int) {
      if (parameter < first) return 1.0;
      return rank == reader ? 2.0 : 0.0;
    };
    AccountRecords& process = records[static_cast<std::size_t>(reader)];
    process = own.records()[static_cast<std::size_t>(reader)];
    for (AccountedStep& step : process.steps) step.is_wrapped = true;
    for (ParameterRecord& record : process.parameters) {
      if (record.index >= first && record.step > 0) record.value[5] += 0.1 * reader;
    }
  }
  return records;
}

AccountVerdict verdict_on(const Records& records, const SeenBeside& others = {}) {
  return account_of(records, others).verdicts.front();
}

TEST(Separate, RanksOfOneModelThatReadTheirOwnAreOff) {
  for (const int first : {0, 1}) {
    const AccountVerdict verdict = verdict_on(apart_from(first));
    EXPECT_EQ(verdict.kind, AccountKind::Separate);
    EXPECT_TRUE(verdict.is_off);
    test::expect_phrases("account", {verdict.sentence});
  }
}

template <typename Change>
Records changed(Change change) {
  Records records = apart_from(0);
  for (AccountRecords& process : records) change(process);
  return records;
}

TEST(Separate, RanksThatMayTrainApartAccuseNobody) {
  const Records without_a_wrapper = changed([](AccountRecords& process) {
    for (AccountedStep& step : process.steps) step.is_wrapped = false;
  });
  const Records with_a_hook = changed([](AccountRecords& process) {
    for (AccountedStep& step : process.steps) step.comm_hook = "post_localSGD_hook";
  });
  const Records averaged_at_last = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      if (record.step == kSteps - 1 && process.rank == 1) record.value[5] -= 0.1;
    }
  });
  const Records averaged_between = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      if (record.step == 2 && process.rank == 1) record.value[5] -= 0.1;
    }
  });
  const Records synchronized_in_its_step = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      if (record.step > 0 && process.rank == 1) record.value[5] -= 0.1;
    }
  });
  const Records of_zeros = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      if (record.step == 0) record.value = {};
    }
  });
  const Records of_ones = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      const std::vector<double> ones(static_cast<std::size_t>(record.elements), 1.5);
      if (record.step == 0) record.value = sketch_of(ones);
    }
  });
  const Records once = changed([](AccountRecords& process) {
    process.steps.resize(1);
    std::erase_if(process.parameters,
                  [](const ParameterRecord& record) { return record.step > 0; });
  });
  for (const Records& records : {without_a_wrapper, with_a_hook, averaged_at_last, averaged_between,
                                 synchronized_in_its_step, of_zeros, of_ones, once}) {
    EXPECT_EQ(verdict_on(records).kind, AccountKind::Separate);
    EXPECT_FALSE(verdict_on(records).is_off);
  }
}

TEST(Separate, RanksThatExchangeOtherThingsMayHaveOtherModels) {
  EXPECT_FALSE(verdict_on(apart_from(0), {.cleared = {}, .has_activations = true}).is_off);
  EXPECT_FALSE(verdict_on(apart_from(1), {.cleared = {}, .has_activations = true}).is_off);
  // Half of its parameters, or more, may be an average of them.
  EXPECT_FALSE(
      verdict_on(apart_from(0), {.cleared = {}, .has_activations = false, .between_bytes = 1000})
          .is_off);
  EXPECT_TRUE(
      verdict_on(apart_from(0), {.cleared = {}, .has_activations = false, .between_bytes = 999})
          .is_off);
}

TEST(Separate, WhatIsMarkedAsEachRanksOwnAccusesNobody) {
  for (const auto& [marked, is_off] : {std::pair{"layer1", false}, std::pair{"another", true}}) {
    SeenBeside beside;
    beside.own = {marked};
    EXPECT_EQ(verdict_on(apart_from(1), beside).is_off, is_off) << marked;
  }
}

TEST(Separate, StepsOfAnotherOptimizerSayNothingOfIt) {
  MadeAccount other;
  other.steps = 2;
  Records between = other.records();
  for (AccountRecords& process : between) {
    for (ParameterRecord& record : process.parameters) {
      record.optimizer = 1;
      record.name = "other";
    }
  }
  const Records records = apart_from(0);
  EXPECT_TRUE(verdict_on(test::joined(records, between)).is_off);
}

TEST(Separate, OtherModelsAccuseNobody) {
  Records records = changed([](AccountRecords& process) {
    for (ParameterRecord& record : process.parameters) {
      if (record.step == 0) record.value[5] += process.rank;
    }
  });
  EXPECT_FALSE(verdict_on(records).is_off);
}

}  // namespace
}  // namespace gradsync::account
