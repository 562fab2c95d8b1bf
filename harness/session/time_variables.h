// The variables of the environment that change how long a step takes or what it reserves: for the
// context of a run, so that a comparison of two runs sees that one of them had
// CUDA_LAUNCH_BLOCKING=1.
//
// Only what the user has set: what this program sets for a rank (comm/gpu_placement.h) follows from
// the plan. Names of files, and what only names a job or a log, are left out.
#pragma once

#include <map>
#include <string>

#include "harness/launch/task_place.h"

namespace gradsync::session {

// Returns the variables of `environment` that change times on `device` ("cpu", "cuda", ...). Pure.
// Source: NCCL's "Environment Variables", CUDA C Programming Guide's, torch's "CUDA Environment
// Variables" and "PYTORCH ProcessGroupNCCL Environment Variables", oneDNN's "CPU Dispatcher
// Control".
std::map<std::string, std::string> time_variables(const launch::Environment& environment,
                                                  const std::string& device);

}  // namespace gradsync::session
