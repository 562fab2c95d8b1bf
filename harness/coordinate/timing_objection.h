// Why the times of a trial mean nothing though it ran and its counts hold.
#pragma once

#include <optional>
#include <string>

#include "harness/results/records.h"

namespace gradsync::coordinate {

// What the ranks of a launch have to compute on.
struct Cores {
  int usable = 1;               // processors: more compute threads than this take turns
  int physical = 1;             // cores that these are hardware threads of
  std::optional<double> quota;  // of the control groups of one task, in cores; nothing: none
  int ranks_under_quota = 1;
  bool is_shared_on_purpose = false;  // ranks that wait for others keep their times
};

// Share of a block: a rank that computes and waits longer than this for its core shares it with
// another process. Two busy processes on one core make it a half; a quiet machine stays under a
// hundredth.
inline constexpr double kLongestQueueWait = 0.1;

// Returns the objection in a sentence; "" if times are valid. Paced ranks may share cores: they
// sleep. Pure.
std::string timing_objection(const results::TrialRecord& trial, const Cores& cores,
                             int threads_per_rank);

}  // namespace gradsync::coordinate
