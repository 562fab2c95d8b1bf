// One trial: a block of steps of one cell, warmed up, timed, checked.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/account/records.h"
#include "harness/results/records.h"
#include "harness/run/workload.h"

namespace gradsync::run {

class ExtraWork;

struct BlockResult {
  results::RankRecord rank;
  results::LedgerRecord ledger;
  std::string invalid;  // why the numbers are invalid; empty: they are valid
  std::optional<account::AccountRecords> account;
  std::string account_why_not;  // where there is none
};

// Runs warm-up and timed steps of `trial`. Collective: all ranks, same trial.
// The clock covers what measure/step_recorder.h lists; ranks meet at a barrier before the first
// warm-up step and never inside. `extra`: what every step does in addition; null: nothing.
// Errors: CommError and whatever the model throws.
BlockResult run_block(const RankContext& context, Workload& workload, const plan::Trial& trial,
                      ExtraWork* extra = nullptr);

}  // namespace gradsync::run
