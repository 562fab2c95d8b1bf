// A training command against a file of counts that is checked in: what a step communicates,
// exactly. No second build and no times, so that one start on any machine decides.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/gate/held_counts.h"
#include "harness/gate/held_page.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::arms {

// A training command that was run, and what it communicates.
struct CountedJob {
  watch::SeenJob job;
  watch::Watched watched;
  gate::HeldCounts counts;
  std::string unsteady;  // see watch::UsualCounts
};

// Runs the command of the question to its end, or for as long as --time-budget says. Its output
// goes to job.log in `directory`, and without --quiet to stderr. Blocks. Errors:
// coordinate::Interrupted; as run_whole_job; EnvironmentError for a job that ended well without a
// visible step. A job that failed before its first step has no counts, and a job that the budget
// ended has no peak.
CountedJob count_job(const GateQuestion& question, const std::string& directory);

// Returns whether a second start must show which of the differences from `held` are chance, and
// which lines the work comes from: where the work differs, or only the peaks of memory.
bool wants_second_start(const gate::HeldCounts& held, const CountedJob& counted);

// Starts the job once more, forgets the peaks and the work in which its two starts differ, which
// are chance and cannot be held, and takes the lines of work from it. Errors: as count_job.
void start_again(const GateQuestion& question, const std::string& directory, CountedJob& counted);

// Returns the page on a job that took steps, held against `held`.
gate::HeldPage held_page(const GateQuestion& question, const gate::HeldCounts& held,
                         const CountedJob& counted);

}  // namespace gradsync::arms
