// Searches the cells of a plan for `gradsync search`, by trials that are as real as those of a run:
// for the edge of what fits, or for the fastest way of each work that fits into its budget of
// memory.
#pragma once

#include <vector>

#include "harness/session/search_question.h"
#include "harness/session/session.h"
#include "harness/summary/race.h"
#include "harness/summary/search.h"

namespace gradsync::session {

// Searches the cells of `plan` one after the other and adds what was found in each to `found`. A
// trial that is ok fits and one that is out of memory does not; any other status ends the search of
// its cell, and its reason is kept. Errors: as Session::run; `found` then has the cells before.
void search_cells(Session& session, const plan::Plan& plan, const SearchQuestion& question,
                  std::vector<summary::SearchedCell>& found);

// Races: runs the cells of `plan` launch by launch. A cell that does not fit by the formula does
// not run, and a cell that is out of the race stops (summary/race.h). Ends when every work has one
// left, or after the launches of its part. `race` holds what is known at any time. Errors: as
// Session::run.
void find_fastest(Session& session, const plan::Plan& plan, summary::Race& race);

// Returns Ok: every work has a fastest. Unfit: in some nothing fits. Failed: a trial failed, or
// nothing of a work has times that count.
ExitStatus exit_status_of(summary::Race& race);

}  // namespace gradsync::session
