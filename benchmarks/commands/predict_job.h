// gradsync predict memory ... -- COMMAND: will that job fit on GPUs that are not there?
#pragma once

#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::cli {

struct JobMemoryOptions {
  std::vector<std::string> command;
  std::string on, python, keep;
  std::vector<std::string> levers;  // "NAME=FLAGS" each
  int world = 0;
  int steps = 3;
  bool as_json = false;
};

// Runs it, and prints what was found.
// Errors: ConfigError where the options are wrong, and as fit::find_fit.
ExitStatus predict_memory_of_job(const JobMemoryOptions& options);

}  // namespace gradsync::cli
