// gradsync search -- COMMAND: how far a training command of the user's can go in a budget of
// memory.
#pragma once

#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/session/search_question.h"
#include "harness/summary/search.h"

namespace gradsync::cli {

// What is said of a training command, beside what is said of any search.
struct JobSearchOptions {
  std::vector<std::string> command;  // empty: a plan is searched
  std::string budget;
  std::string on;  // GPUs of paper
  std::string python;
  std::string step_timeout;
};

// Errors: ConfigError where one is given without a command.
void require_no_options(const JobSearchOptions& options);

// Returns the exit status of the search, whose page it prints. Blocks.
// Errors: ConfigError for what cannot be asked of a command; as arms::search_job.
ExitStatus search_of_job(const session::SearchOptions& options, const JobSearchOptions& job);

// Writes search.json and table.md into `directory`, and prints one of them.
void print_search(const summary::Search& search, const std::string& directory, bool as_json);

}  // namespace gradsync::cli
