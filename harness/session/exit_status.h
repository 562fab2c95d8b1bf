// From exceptions and trials to the exit statuses of base/errors.h.
#pragma once

#include <exception>
#include <vector>

#include "harness/base/errors.h"
#include "harness/plan/plan.h"
#include "harness/results/records.h"

namespace gradsync::session {

// Returns the status that an exception stands for; Internal for one that is none of ours.
ExitStatus exit_status_of(const std::exception& error);

// Returns the program's exit status for these trials of `plan`: design.md, section 5. A trial that
// failed as its part of the plan expects has answered, and does not count as failed.
ExitStatus exit_status_of(const std::vector<results::TrialRecord>& trials, const plan::Plan& plan);

}  // namespace gradsync::session
