// What the probes of a search amount to: an edge, in a sentence, and the exit status.
#pragma once

#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/plan/edge.h"
#include "harness/summary/search.h"

namespace gradsync::session {

// Puts into `found`, whose probes are there, what `edge` says about `axis`.
void conclude(const plan::Edge& edge, const std::string& axis, summary::SearchedCell& found);

// Returns the exit status of a search that came to its end: Failed where one of the cells ended in
// a failure or in an answer that contradicts itself, Ok where one has an answer, else Unfit.
ExitStatus exit_status_of(const std::vector<summary::SearchedCell>& cells);

}  // namespace gradsync::session
