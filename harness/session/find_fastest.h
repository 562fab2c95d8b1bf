// The fastest way of each work of a plan that fits into its budget of memory, by a race.
#pragma once

#include "harness/session/session.h"
#include "harness/summary/race.h"

namespace gradsync::session {

// Runs the cells of `plan` launch by launch: not at all where the formula says that a cell does not
// fit, and no more once it is out (summary/race.h). Ends when every work has one left, or after the
// launches of its part. `race` holds what is known at any time. Errors: as Session::run.
void find_fastest(Session& session, const plan::Plan& plan, summary::Race& race);

// Ok: every work has a fastest. Unfit: in some nothing fits. Failed: a trial failed, or nothing of
// a work has times that count.
ExitStatus exit_status_of(summary::Race& race);

}  // namespace gradsync::session
