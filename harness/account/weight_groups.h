// The equations of a step's parameters, solved: together where they add up together, else in groups
// that do.
#pragma once

#include <map>
#include <vector>

#include "harness/account/account.h"
#include "harness/account/sought.h"

namespace gradsync::account {

// Adds to `account` the groups of parameters that the same ranks have and read alike; or why there
// are none. `before`: what was sought in the step before, where that was accounted.
void solve_class(StepAccount& account, const std::vector<const Sought*>& together,
                 const std::map<ParameterKey, Sought>& before);

}  // namespace gradsync::account
