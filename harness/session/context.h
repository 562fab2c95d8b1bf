// The `context` of a result: everything about machine, build and run that a number depends on.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/launch/gpus.h"
#include "harness/launch/host.h"
#include "harness/plan/plan.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

using Gpus = Known<std::vector<launch::GpuInfo>>;

// Returns this program's part of the context: "gradsync" (its version), "commit", "build_type",
// "sanitize" (null: none), "timing_valid", "compiler", "torch".
nlohmann::json build_context();

// Returns the context as it stands before the run; "end_time", "links" and the load afterwards are
// filled in by the session. `gpus` is gpus_for()'s.
nlohmann::json make_context(const RunOptions& options, const plan::Plan& plan,
                            const launch::Host& host, const Gpus& gpus);

// Returns launch::probe_gpus() where the plan uses them, and otherwise why it was not asked.
Gpus gpus_for(const plan::Plan& plan);

// Returns what is good and bad about the machine and its GPUs.
std::vector<launch::Finding> findings_about(const launch::Host& host, const Gpus& gpus);

}  // namespace gradsync::session
