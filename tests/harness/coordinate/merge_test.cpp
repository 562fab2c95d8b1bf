// From the messages of ranks to the record of a trial.
#include "harness/coordinate/merge.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gradsync::coordinate
