// Two builds of this program against each other, on the rows of a plan.
#pragma once

#include "harness/arms/gate_question.h"
#include "harness/arms/gate_stages.h"

namespace gradsync::arms {

// Blocks for as long as the time budget says, or less; how far it is goes to stderr.
// Errors: run::Interrupted; ConfigError for builds, rows or a budget that make no gate;
// EnvironmentError for a build whose times mean nothing.
GateFindings compare_builds(const GateQuestion& question);

}  // namespace gradsync::arms
