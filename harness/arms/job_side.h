// A training command as a side of a gate, with what is known of it.
#pragma once

#include <string>

#include "harness/gate/gate_report.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::arms {

// `torch`: the version that the command uses. `watched`: what was seen of it; null: nothing was.
gate::Side side_of_job(const std::string& command, const std::string& torch,
                       const watch::Watched* watched);

}  // namespace gradsync::arms
