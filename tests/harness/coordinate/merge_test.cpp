// From the messages of ranks to the record of a trial.
#include "harness/coordinate/merge.h"

#include <gtest/gtest.h>

#include "tests/harness/account/made_account.h"

namespace gradsync::coordinate {
namespace {

TrialDone message_of(int rank, const std::vector<double>& step_s) {
  results::RankRecord record;
  record.rank = rank;
  record.step_s = step_s;
  results::LedgerRecord ledger;
  ledger.matches = true;
  results::ModelInfo info;
  info.parameters = 1;
  return {0, record, ledger, info, ""};
}

TEST(Merge, TakesTheSlowestRankStepByStep) {
  const std::map<int, TrialDone> messages{{0, message_of(0, {1.0, 4.0})},
                                          {1, message_of(1, {2.0, 3.0})}};
  EXPECT_EQ(merge_ranks({}, messages, false).step_s, (std::vector<double>{2.0, 4.0}));
  EXPECT_EQ(merge_ranks({}, messages, true).step_s, (std::vector<double>{1.0, 4.0}));
  EXPECT_EQ(merge_ranks({}, messages, false).ranks.size(), 2U);
}

TEST(Merge, AnyRanksMismatchMakesTheTrialInvalid) {
  auto bad = message_of(1, {1.0});
  bad.invalid = "ledger: too many";
  const auto record = merge_ranks({}, {{0, message_of(0, {1.0})}, {1, bad}}, false);
  EXPECT_EQ(record.status, results::Status::Invalid);
  EXPECT_EQ(record.reason, "[rank 1/2] ledger: too many");
}

std::map<int, TrialDone> with_accounts(const gradsync::test::MadeAccount& made) {
  std::map<int, TrialDone> messages;
  for (account::AccountRecords& records : made.records()) {
    const int rank = records.rank;
    for (account::ParameterRecord& parameter : records.parameters) parameter.value = {};
    messages[rank] = message_of(rank, {1.0});
    messages[rank].account = std::move(records);
  }
  return messages;
}

TEST(Merge, AnAccountThatIsOffMakesTheTrialInvalid) {
  const auto right = merge_ranks({}, with_accounts({}), false);
  EXPECT_EQ(right.status, results::Status::Ok);
  EXPECT_EQ(right.account->contributions, 8);
  EXPECT_EQ(right.account_why_not, "");
  const auto off = merge_ranks(
      {}, with_accounts({.weight = [](int, int, int m) { return m == 1 ? 1.02 : 1.0; }}), false);
  EXPECT_EQ(off.status, results::Status::Invalid);
  EXPECT_EQ(off.reason, "account: micro-batch 2 of 4 weighs 1.02 x the others");
  EXPECT_TRUE(off.ledger.matches);
  EXPECT_NEAR(off.account->weight_max / off.account->weight_min, 1.02, 1e-6);
}

TEST(Merge, ARanksOwnComplaintComesBeforeTheAccounts) {
  auto messages = with_accounts({.weight = [](int, int, int m) { return m == 1 ? 0.0 : 1.0; }});
  messages[1].invalid = "ledger: too many";
  EXPECT_EQ(merge_ranks({}, messages, false).reason, "[rank 1/2] ledger: too many");
}

TEST(Merge, WithoutAnAccountTheRecordSaysWhy) {
  auto messages = with_accounts({});
  for (auto& [rank, message] : messages) {
    message.account.reset();
    message.account_why_not = "folded";
  }
  const auto record = merge_ranks({}, messages, false);
  EXPECT_EQ(record.status, results::Status::Ok);
  EXPECT_FALSE(record.account);
  EXPECT_EQ(record.account_why_not, "folded");
}

TEST(Merge, WhereNothingIsSynchronizedRanksMustReadTheirOwn) {
  results::TrialRecord record;
  record.cell = nlohmann::json{{"wrapper", "local"}};
  EXPECT_EQ(merge_ranks(record, with_accounts({}), false).status, results::Status::Invalid);
}

}  // namespace
}  // namespace gradsync::coordinate
