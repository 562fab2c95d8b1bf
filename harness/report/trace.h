// The example step of each cell as a Chrome trace (about:tracing, Perfetto).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/records.h"

namespace gradsync::report {

// Returns {"traceEvents": [...]}: one process per cell (its last trial that ended well), two rows
// per rank: what the rank did, and which collectives ran. Times in microseconds from the start of
// the step, as that format wants.
nlohmann::json trace_json(const std::vector<results::TrialRecord>& trials);

}  // namespace gradsync::report
