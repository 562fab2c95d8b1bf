// Two builds against each other: counts first, times in turns, a confirmation of what was found.
#pragma once

#include <ostream>

#include "benchmarks/gate_question.h"
#include "harness/gate/gate_report.h"
#include "harness/gate/turns.h"

namespace gradsync::cli {

struct GateFindings {
  gate::GateReport report;
  gate::TurnFamily turns;                       // without rows where no times were measured
  std::vector<results::TrialRecord> candidate;  // every block of it, for claims
};

// Blocks for as long as the time budget says, or less; how far it is goes to stderr.
// Errors: run::Interrupted; ConfigError for builds, rows or a budget that make no gate;
// EnvironmentError for a build whose times mean nothing.
GateFindings compare_builds(const GateQuestion& question);

}  // namespace gradsync::cli
