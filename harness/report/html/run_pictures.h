// The pictures of a run: how long a step takes in each way, and what a rank holds.
#pragma once

#include <string>

#include "harness/summary/part_view.h"

namespace gradsync::html {

// Returns bars of s/step with their intervals, a group for each setting; "" where no row has a
// time.
std::string step_pictures(const summary::PartView& part);

// Returns bars of the peak of a rank's tensors, with the budget where there is one; one sentence
// where all rows have the same peak; "" where it was measured in no row.
std::string memory_pictures(const summary::PartView& part);

}  // namespace gradsync::html
