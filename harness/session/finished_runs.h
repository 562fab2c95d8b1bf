// Runs of plans that are over, and runs that another program makes for us.
#pragma once

#include <string>

#include "harness/session/run_options.h"
#include "harness/summary/run_comparison.h"

namespace gradsync::session {

// Returns the run in `directory`, summarised again from its trials: they may be newer than its
// result.json after a crash.   Errors: ResultsError; nlohmann::json::exception for other JSON.
summary::FinishedRun read_run(const std::string& directory);

// Lets `program` run the plan of `options` into `directory`, and returns what it measured. Blocks;
// its table goes nowhere, its messages to stderr. Errors: run::Interrupted, once the program has
// ended; ConfigError where it cannot start or refuses the plan; as read_run.
summary::FinishedRun run_plan_with(const std::string& program, const RunOptions& options,
                                   const std::string& directory);

}  // namespace gradsync::session
