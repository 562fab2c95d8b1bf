#include "harness/coordinate/merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/coordinate/trial_account.h"

namespace gradsync::coordinate {
namespace {

// a[i] = max(a[i], b[i]); the longer one's rest is kept.
void take_slower(std::vector<double>& slowest, const std::vector<double>& other) {
  slowest.resize(std::max(slowest.size(), other.size()), 0);
  for (std::size_t i = 0; i < other.size(); ++i) slowest[i] = std::max(slowest[i], other[i]);
}

// An account that is off makes the trial invalid, unless something else has.
void add_account(results::TrialRecord& record, const std::map<int, TrialDone>& messages) {
  std::vector<account::AccountRecords> ranks;
  for (const auto& [rank, message] : messages) {
    if (message.account) {
      ranks.push_back(*message.account);
    } else {
      record.account_why_not = message.account_why_not;
      return;
    }
  }
  const bool is_separate = record.cell.wrapper() == "local";
  const JudgedAccount judged = judge_trial_account(ranks, is_separate);
  if (judged.account) {
    record.account = *judged.account;
  } else {
    record.account_why_not = judged.account.why_not();
  }
  if (judged.off.empty() || record.status != results::Status::Ok) return;
  record.status = results::Status::Invalid;
  record.reason = "account: " + judged.off;
}

}  // namespace

results::TrialRecord record_of(const std::string& part, int launch, const plan::Trial& trial) {
  results::TrialRecord record;
  record.part = part;
  record.cell = nlohmann::json(trial.cell);
  record.launch = launch;
  record.round = trial.round;
  record.order = trial.order;
  return record;
}

results::TrialRecord merge_ranks(results::TrialRecord record,
                                 const std::map<int, TrialDone>& messages, bool as_published) {
  GRADSYNC_CHECK(messages.empty(), ==, false);
  for (const auto& [rank, message] : messages) {
    const auto& rank_record = record.ranks.emplace_back(message.rank);
    if (rank == 0 || !as_published) {
      take_slower(record.step_s, rank_record.step_s);
      take_slower(record.warmup_step_s, rank_record.warmup_step_s);
    }
    if (rank == 0) record.ledger = message.ledger;
    if (!message.invalid.empty() && record.status == results::Status::Ok) {
      record.status = results::Status::Invalid;
      record.reason = fmt::format("[rank {}/{}] {}", rank, messages.size(), message.invalid);
      record.ledger.matches = record.ledger.matches && message.ledger.matches;
    }
  }
  record.model_info = messages.begin()->second.model_info;
  add_account(record, messages);
  return record;
}

}  // namespace gradsync::coordinate
