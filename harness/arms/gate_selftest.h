// The gate's own error rates: builds whose difference is known take turns as in a gate.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/gate/error_rates.h"

namespace gradsync::arms {

// Lets the baseline build (this program, where none was named) take turns with itself, once for
// each share of extra work in every round of starts, in random order; keeps the turns of each share
// in a file of its own in `directory`, written after every start; and returns what the gate decides
// on all that lies there, of earlier self-tests too. Blocks: every start has Settings::start_turns
// turns of every row, and none ends early. Errors: as compare_builds; EnvironmentError where a row
// cannot be measured; ConfigError, before anything runs, where other rows or blocks lie there.
gate::ErrorRates measure_error_rates(const GateQuestion& question, const std::string& directory);

}  // namespace gradsync::arms
