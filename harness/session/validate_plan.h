// Whether a plan can run at all, said before any rank starts: the one place for what its reader
// cannot judge, since it takes knowing the models, the topologies and how the plan is to be used.
#pragma once

#include <string>

#include "harness/plan/plan.h"

namespace gradsync::session {

struct PlanUse {
  bool has_weights = false;   // --weights is given
  bool takes_turns = false;   // as RunOptions has it
  std::string launcher = "";  // that started the program; "": none did
};

// Errors: ConfigError with the plan's file, the field, what it has and what was expected, for the
// first thing that no rank could do. Models that are linked into the rank program are asked for
// there, and may refuse more (a rank then says so).
void validate_plan(const plan::Plan& plan, const PlanUse& use);

}  // namespace gradsync::session
