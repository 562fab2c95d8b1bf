// Two training commands against each other: what they communicate in a step, exactly, and how long
// their steps take, in turns.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/arms/gate_stages.h"

namespace gradsync::arms {

// Blocks for as long as the time budget says, or less; how far it is goes to stderr. The output of
// the jobs goes to files in `directory`. A job that is over before a verdict leaves it undecided.
// Errors: run::Interrupted; ConfigError and EnvironmentError as JobArms; ConfigError for a budget
// that makes no gate.
GateFindings compare_jobs(const GateQuestion& question, const std::string& directory);

}  // namespace gradsync::arms
