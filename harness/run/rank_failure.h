// What a rank tells its launcher when it cannot go on.
#pragma once

#include <exception>

#include "harness/coordinate/rank_messages.h"
#include "harness/launch/rank_progress.h"

namespace gradsync::run {

// Returns what `error`, which reached the rank's top, stands for. `progress`: where the rank was.
coordinate::RankFailure rank_failure(const std::exception& error,
                                     const launch::RankProgress& progress);

}  // namespace gradsync::run
