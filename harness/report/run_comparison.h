// Two finished runs side by side, cell by cell: did another host, torch or commit change anything?
//
// Counts and bytes are exact, so any difference in them is one. Times are compared only where the
// contexts of both runs allow it (context_difference.h). The runs did not take turns, so nothing
// cancels in the ratio of their times as it does in a slowdown, which is paired inside a run: the
// slowdowns of both stand beside it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/records.h"
#include "harness/stats/launch_interval.h"

namespace gradsync::report {

inline constexpr const char* kComparisonSchema = "gradsync.comparison/1";

// A finished run: where it lies, build_result's result, and the trials that was built from.
struct FinishedRun {
  std::string directory;
  nlohmann::json result;
  std::vector<results::TrialRecord> trials;
};

// Returns {"schema", "a", "b", "differences", "cells", "only_in_a", "only_in_b"}:
//   "a", "b": "directory", "context" and "plan" (its name) of each run
//   "differences": context_differences(), each as "field", "a", "b", "effect", "topology", "scale"
//   "cells", in the order of `a`: "part", "cell", "timing", "a" and "b" (status, launches, step_s,
//   slowdown,
//     exposed_comm_s and collectives_per_step as in result.json), "same_collectives" (true, false;
//     null where one is not known), "step_ratio": {"ratio", "ci95", "interval"} of b over a, the
//     interval at `level`
//   "only_in_a", "only_in_b": "part" and "cell" of those that the other run does not have
// A cell of `b` matches by its parameters and part, or else by its parameters alone.
// What is null has its reason in "null_reasons" of the cell. Where times must not be compared,
// step_s and exposed_comm_s of both are null, too.
nlohmann::json compare_runs(const FinishedRun& a, const FinishedRun& b,
                            double level = stats::kUsualLevel);

}  // namespace gradsync::report
