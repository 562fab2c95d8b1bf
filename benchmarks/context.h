// The `context` of a result: everything about machine, build and run that a number depends on.
#pragma once

#include <nlohmann/json.hpp>

#include "benchmarks/run_options.h"
#include "harness/plan/plan.h"

namespace gradsync::cli {

// Returns the context as it stands before the run; "end_time", "links" and the load afterwards are
// filled in by the session. `host` is probe_host()'s.
nlohmann::json make_context(const RunOptions& options, const plan::Plan& plan,
                            const nlohmann::json& host);

}  // namespace gradsync::cli
