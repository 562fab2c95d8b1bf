// The rank side of a launch, from the first message of the launcher to the last trial. A resident
// rank knows no last one: it waits for the next until its launcher ends it.
#pragma once

namespace gradsync::run {

// Runs as one rank: joins the process group, runs the trials it was told, sends each one's record.
// Returns the process's exit status. Every failure is told to the launcher before the return.
int rank_main();

}  // namespace gradsync::run
