// How `gradsync gate` answers its questions: it measures, writes files, prints a page and returns
// the exit status of the verdict. Errors: as harness/arms/gates.h.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/base/errors.h"

namespace gradsync::cli {

// Returns the folder of the results: --out, or one named after the question and the time.
std::string directory_for(const arms::GateQuestion& question);

// Compares builds, commands, a stored run, or claims.
ExitStatus compare(const arms::GateQuestion& question);

// Runs the training command, compares it with the file of counts or writes the file, and keeps what
// was seen in `directory`. Returns Ok if the job does what the file says, Regression if not, Unfit
// if that cannot be decided, and Failed if the job failed by itself and no difference is known.
// Errors: as arms::count_job; ConfigError for a file that is missing or is no file of counts.
ExitStatus hold_counts(const arms::GateQuestion& question, const std::string& directory);

// Prints the gate's own error rates, and keeps measured ones beside their turns.
ExitStatus print_error_rates(const arms::GateQuestion& question);

}  // namespace gradsync::cli
