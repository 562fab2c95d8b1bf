// Checks whether a plan can run at all, before any rank starts. These checks need the models, the
// topologies and the use of the plan, so its reader cannot make them.
#pragma once

#include <string>

#include "harness/plan/plan.h"

namespace gradsync::session {

struct PlanUse {
  bool has_weights = false;   // --weights is given
  bool takes_turns = false;   // as RunOptions has it
  std::string launcher = "";  // that started the program; "": none did
};

// Throws ConfigError with the plan's file, the field, what it has and what was expected, for the
// first error. Models that are linked into the rank program are asked for there, and may refuse
// more (a rank then says so).
void validate_plan(const plan::Plan& plan, const PlanUse& use);

}  // namespace gradsync::session
