// What ranks that are played tell their launcher, and what it runs on them. For tests.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/coordinate/watched_group.h"
#include "harness/results/records.h"

namespace gradsync::coordinate::test {

// A rank's message of a trial that went well; rank 1's steps take twice as long as rank 0's.
inline nlohmann::json trial_message(int rank, int order, std::size_t steps) {
  results::RankRecord record;
  record.rank = rank;
  record.step_s.assign(steps, 1.0 + rank);
  results::LedgerRecord ledger;
  ledger.matches = true;
  results::ModelInfo info;
  info.parameters = 1;
  return to_json(TrialDone{order, record, ledger, info, ""});
}

inline plan::Trial trial_of(int order, int steps) {
  plan::Trial trial;
  trial.order = order;
  trial.cell.model = "mlp";
  trial.steps = steps;
  return trial;
}

// A launch of two ranks of one node without trials; how they start is the caller's.
inline RunnableLaunch launch_of_two_ranks() {
  RunnableLaunch runnable;
  runnable.spec.topology.ranks_per_node = 2;
  runnable.spec.timeout_s = 30;
  runnable.cores.usable = runnable.cores.physical = 2;
  return runnable;
}

}  // namespace gradsync::coordinate::test
