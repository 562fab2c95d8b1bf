// One finished run against another: what a build does now, against what was stored of another.
//
// Counts and bytes are compared exactly, whatever the machine. Times only where the contexts of
// both runs allow it (summary/context_difference.h), and even then with less to say than turns
// have: the two did not take turns, so that whatever changed on the machine between them is in the
// ratio of their times, too. Two runs of one build that followed each other came out different by
// more than chance in 30 to 40 of 100 cases on a shared machine. The report says so in its notes.
#pragma once

#include <string>
#include <vector>

#include "harness/gate/gate_report.h"
#include "harness/gate/launch_level.h"
#include "harness/gate/rows.h"
#include "harness/gate/settings.h"
#include "harness/summary/run_comparison.h"

namespace gradsync::gate {

struct AgainstOptions {
  std::vector<RowFilter> rows;  // none: all
  bool times = true;            // false: counts and bytes only
};

// Returns the comparison of `candidate` with `baseline`, row by row of the baseline, then the rows
// that only the candidate has. A row's times are decided by the interval of the ratio of its means
// over launches, at level 1 - alpha / rows for the rows that have times in both runs, so that alpha
// is the chance of any false alarm: a pass where it lies below the smallest effect, a regression
// where it lies above the margin. Undecided where it does neither, where a side has fewer than
// kFewestLaunchesToDecide, or where contexts forbid a comparison; the fields that do are named.
// Where neither run has times of a row (one rank stands for all, threads share cores, out of
// memory) there is nothing to refuse, and its counts decide. Errors: ConfigError where a filter
// selects no row, or a row is none of this version's.
GateReport judge_against(const summary::FinishedRun& baseline,
                         const summary::FinishedRun& candidate, const Settings& settings,
                         const AgainstOptions& options = {});

// Returns how the first row that ended otherwise than the baseline's did so, as in "1x2, no_sync:
// the candidate is timeout (...) where the baseline is ok"; "": none did. A failure may be the
// machine's: the candidate is run once more before it counts.
std::string other_outcome(const GateReport& report);

}  // namespace gradsync::gate
