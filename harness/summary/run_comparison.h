// Two finished runs side by side, cell by cell: did another host, torch or commit change anything?
//
// Counts and bytes are exact, so any difference in them is one. Times are compared only where the
// contexts of both runs allow it (context_difference.h). The runs did not take turns, so nothing
// cancels in the ratio of their times as it does in a slowdown, which is paired inside a run: the
// slowdowns of both stand beside it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/results/result.h"
#include "harness/stats/launch_interval.h"
#include "harness/summary/context_difference.h"

namespace gradsync::summary {

inline constexpr const char* kComparisonSchema = "gradsync.comparison/1";

// A finished run: where it lies, build_result's result, and the trials that was built from.
struct FinishedRun {
  std::string directory;
  results::Result result;
  std::vector<results::TrialRecord> trials;
};

// A run of a comparison.
struct ComparedRun {
  std::string directory;
  results::Context context;
  std::optional<std::string> plan;  // its name
};

// A cell that both runs have. `a` and `b` are what either says of it; where times must not be
// compared, theirs and their exposed communication are not known.
struct ComparedCell {
  std::string part;  // of `a`
  results::Parameters cell;
  results::Timing timing = results::Timing::Real;
  results::CellResult a;
  results::CellResult b;
  Known<bool> same_collectives;
  Known<results::Ratio> step_ratio;  // of b's mean step over a's
};

// A cell that one run has alone.
struct LonelyCell {
  std::string part;
  results::Parameters cell;
};

struct RunComparison {
  ComparedRun a;
  ComparedRun b;
  std::vector<ContextDifference> differences;
  std::vector<ComparedCell> cells;  // in the order of `a`
  std::vector<LonelyCell> only_in_a;
  std::vector<LonelyCell> only_in_b;
};

// As comparison.json has it; of the two sides of a cell what is compared.
void to_json(nlohmann::json& out, const RunComparison& comparison);
void to_json(nlohmann::json& out, const ContextDifference& difference);

// Returns the comparison, its ratios with their intervals at `level`. A cell of `b` matches by its
// parameters and part, or else by its parameters alone.
RunComparison compare_runs(const FinishedRun& a, const FinishedRun& b,
                           double level = stats::kUsualLevel);

}  // namespace gradsync::summary
