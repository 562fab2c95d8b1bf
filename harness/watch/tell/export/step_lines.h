// The steps of a watched job as lines of JSON, schema gradsync.watch_step/1
// (results/schema/watch_step.schema.json).
#pragma once

#include <string>

#include "harness/watch/judge/watched_steps.h"

namespace gradsync::watch {

inline constexpr const char* kWatchStepSchema = "gradsync.watch_step/1";

// Returns the line with its newline. `ended_s`: when the step ended, in seconds since 1970. What is
// not known is null, with its reason in "null_reasons".
std::string step_line(const WatchedStep& step, double ended_s);

}  // namespace gradsync::watch
