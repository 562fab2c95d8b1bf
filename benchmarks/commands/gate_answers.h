// How `gradsync gate` answers its questions: it measures, writes files, prints a page and returns
// the exit status of the verdict. Errors: as harness/arms/gates.h.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/base/errors.h"

namespace gradsync::cli {

// Returns the folder of the results: --out, or one named after the question and the time.
std::string directory_for(const arms::GateQuestion& question);

// Builds, commands, a stored run, or claims.
ExitStatus compare(const arms::GateQuestion& question);

// Runs the training command, holds it against the file of counts or writes the file, and keeps in
// `directory` what was seen. Returns Ok where it is as the file says, Regression where it is not,
// Unfit where nothing shows which; Failed where the job failed by itself and no difference is
// known. Errors: as arms::count_job; ConfigError for a file that is missing or none of counts.
ExitStatus hold_counts(const arms::GateQuestion& question, const std::string& directory);

// Prints the gate's own error rates, and keeps those that were measured beside their turns.
ExitStatus print_error_rates(const arms::GateQuestion& question);

}  // namespace gradsync::cli
