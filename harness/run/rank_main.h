// The rank side of a launch, from the first message of the launcher to the last trial, and what the
// rank reports when it fails. A resident rank has no last trial: it waits for the next one until
// its launcher ends it.
#pragma once

#include <exception>

#include "harness/coordinate/rank_messages.h"
#include "harness/launch/rank_progress.h"

namespace gradsync::run {

// Runs as one rank: joins the process group, runs the trials it was given, and sends the record of
// each. Returns the process's exit status. It reports every failure to the launcher before it
// returns.
int rank_main();

// Returns the failure to report for `error`, which reached main. `progress`: where the rank was.
coordinate::RankFailure rank_failure(const std::exception& error,
                                     const launch::RankProgress& progress);

}  // namespace gradsync::run
