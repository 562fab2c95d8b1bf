// Estimates how long a plan will take, before it starts. The estimate comes from runs that this
// machine has made under the same conditions; for a cell that was not measured, from the law of a
// step's cost (stats/step_law.h) and the cells around it. Nothing else is guessed; without any such
// run it says so.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/results/records.h"
#include "harness/results/run_context.h"

namespace gradsync::session {

// A run that is over.
struct EarlierRun {
  std::string directory;
  std::string day;                  // "2026-11-24"
  nlohmann::json plan;              // with every override applied
  std::optional<double> elapsed_s;  // from its start to its end; unset: it failed, or was resumed
  std::vector<results::TrialRecord> trials;
};

// Returns the runs in `folders` that were made as `context` says: on the same host, with as many
// CPUs, by the same device, backend and threads; newest first, twenty at most. Runs that cannot be
// read are ignored.
std::vector<EarlierRun> earlier_runs(const std::vector<std::string>& folders,
                                     const results::Context& context);

// Returns the sentence for the trials of `launches`, which are of `plan`: "8 trials, about 2m10s:
// as long as the same plan took on 2026-11-24 (results/runs/smoke_...)".
std::string length_sentence(const plan::Plan& plan, const std::vector<plan::Launch>& launches,
                            const std::vector<EarlierRun>& runs);

}  // namespace gradsync::session
