// The edge of what fits in each cell of a plan, by trials that are as real as those of a run.
#pragma once

#include <vector>

#include "harness/session/search_question.h"
#include "harness/session/session.h"
#include "harness/summary/search.h"

namespace gradsync::session {

// Searches the cells of `plan` one after the other and adds what was found in each to `found`. A
// trial that is ok fits and one that is out of memory does not; any other status ends the search of
// its cell, and its reason is kept. Errors: as Session::run; `found` then has the cells before.
void search_cells(Session& session, const plan::Plan& plan, const SearchQuestion& question,
                  std::vector<summary::SearchedCell>& found);

}  // namespace gradsync::session
