// What records a job's allocations and replays them, compiled for the job's own torch on first use.
#pragma once

#include <string>

#include "harness/watch/inject/job_torch.h"

namespace gradsync::fit {

struct Libraries {
  std::string recorder;  // for kRecorderVariable
  std::string replay;    // a program
};

// Errors: EnvironmentError where there is no compiler, no CUDA headers beside that torch, or no
// cache that can be written.   Cost: half a minute on first use.
Libraries build_libraries(const watch::JobTorch& torch);

}  // namespace gradsync::fit
