// By which parameters cells that stand together are told apart.
#pragma once

#include <string>
#include <vector>

#include "harness/results/parameters.h"

namespace gradsync::text {

// Returns the names of those parameters that differ between the cells, sorted, but for topology and
// strategy. One that only some of them have differs; one that belongs to a wrapper (plan::Axis)
// differs where cells of that wrapper do, since the others cannot have it.
std::vector<std::string> varying_names(const std::vector<const results::Parameters*>& cells);

}  // namespace gradsync::text
