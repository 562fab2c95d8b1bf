// Where does a training command stop to fit in memory, along one value on its command line?
//
// Each value that is tried is the command, started, watched, and ended after a few steps: by then a
// job holds what it will hold. Nothing of the job is changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/edge.h"
#include "harness/summary/search.h"

namespace gradsync::arms {

// Stands for the value in the words of a command.
inline constexpr const char* kPlaceOfValue = "{}";

struct JobSearch {
  std::vector<std::string> command;
  std::string python;  // its interpreter, where the command does not show it; "": find it
  std::string axis;    // what the value is called
  plan::EdgeQuestion ends;
  std::optional<std::int64_t> budget_bytes;  // of each rank's tensors; absent: the GPUs' memory
  std::string on;              // GPUs of paper that the command has; "": the machine's own devices
  int steps = 0;               // of each start
  double step_deadline_s = 0;  // a job that makes no step for so long is ended
  std::string directory;       // gets the jobs' output, a file for each value
};

// Adds what was found to `found`, once it is. A value fits where no rank held more than the budget.
// A job that runs out of memory by itself, as it does where GPUs of paper are full, does not fit;
// one that fails otherwise, or whose peak is not known, stops the search. Blocks.
// Errors: coordinate::Interrupted; as watch::run_whole_job.
void search_job(const JobSearch& search, std::vector<summary::SearchedCell>& found);

}  // namespace gradsync::arms
