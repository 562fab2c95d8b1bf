// gradsync search -- COMMAND: how far a user's training command can go in a budget of memory.
#pragma once

#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/session/search_question.h"
#include "harness/summary/search.h"

namespace gradsync::cli {

// The options for a training command, beside those of any search.
struct JobSearchOptions {
  std::vector<std::string> command;  // empty: a plan is searched
  std::string budget;
  std::string on;  // GPUs of paper
  std::string python;
  std::string step_timeout;
};

// Throws ConfigError if one of them is given without a command.
void require_no_options(const JobSearchOptions& options);

// Searches, prints the page, and returns the exit status. Blocks.
// Errors: ConfigError for options that a command cannot have; as arms::search_job.
ExitStatus search_of_job(const session::SearchOptions& options, const JobSearchOptions& job);

// Writes search.json and table.md into `directory`, and prints one of them.
void print_search(const summary::Search& search, const std::string& directory, bool as_json);

}  // namespace gradsync::cli
