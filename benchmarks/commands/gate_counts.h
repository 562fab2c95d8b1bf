// `gradsync gate --counts FILE -- COMMAND`.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/base/errors.h"

namespace gradsync::cli {

// Runs the command, holds it against the file or writes the file, prints the page, and keeps in
// `directory` what was seen. Returns Ok where it is as the file says, Regression where it is not,
// Unfit where that cannot be told; Failed where the job failed by itself and no difference is
// known. Errors: as arms::count_job; ConfigError for a file that is missing or none of counts.
ExitStatus hold_counts(const arms::GateQuestion& question, const std::string& directory);

}  // namespace gradsync::cli
