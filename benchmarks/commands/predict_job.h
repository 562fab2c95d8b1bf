// gradsync predict memory ... -- COMMAND: will that job fit on GPUs that are not there?
#pragma once

#include <CLI/CLI.hpp>
#include <array>
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

// Options of a COMMAND that a model of the suite does not have.
inline constexpr std::array kOptionsOfJob = {"--on",    "--python", "--keep",
                                             "--world", "--steps",  "--lever"};

void add_job_options(CLI::App& command, JobMemoryOptions& options);

// Throws ConfigError if an option for the suite's models was given. --json is for both.
void refuse_model_options(const CLI::App& command);

// Runs the job, and prints what was found.
// Errors: ConfigError if the options are wrong, and as fit::find_fit.
ExitStatus predict_memory_of_job(const JobMemoryOptions& options);

}  // namespace gradsync::cli
