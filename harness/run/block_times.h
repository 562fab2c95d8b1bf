// Checks the times of a block's steps against the clock around the block. Pure.
#pragma once

#include <string>
#include <vector>

#include "harness/measure/step_recorder.h"

namespace gradsync::run {

// Returns what is wrong in words, or "" where the steps are `count`, each begins where the one
// before it ended, and together they are no longer than the block, `block_s`. They may be shorter
// by any time: a busy machine takes the processor away between two readings of the clock, also
// between the block's and those of the step beside it, and no step is to blame for that.
std::string first_mistiming(const std::vector<measure::RecordedStep>& steps, std::size_t count,
                            double block_s);

}  // namespace gradsync::run
