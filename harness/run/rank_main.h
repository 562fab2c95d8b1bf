// The rank side of a launch, from the first message of the launcher to the last trial. A resident
// rank knows no last one: it waits for the next until its launcher ends it. And what it tells the
// launcher when it cannot go on.
#pragma once

#include <exception>

#include "harness/coordinate/rank_messages.h"
#include "harness/launch/rank_progress.h"

namespace gradsync::run {

// Runs as one rank: joins the process group, runs the trials it was told, sends each one's record.
// Returns the process's exit status. Every failure is told to the launcher before the return.
int rank_main();

// Returns what `error`, which reached the rank's top, stands for. `progress`: where the rank was.
coordinate::RankFailure rank_failure(const std::exception& error,
                                     const launch::RankProgress& progress);

}  // namespace gradsync::run
