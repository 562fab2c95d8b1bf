// What gates found, made up by hand: every verdict once, for the pages, the schema and the plot.
#pragma once

#include "harness/gate/gate_report.h"

namespace gradsync::test {

// Two builds that took turns: a row that passes, one that is slower, one that lost its no_sync, one
// undecided, one whose control is off; and three claims.
gate::GateReport sample_gate();

// The same rows against a stored run of another machine: counts and bytes alone.
gate::GateReport sample_counts_gate();

// Two training commands, of which the candidate lost its no_sync.
gate::GateReport sample_jobs_gate();

// Rows with names too long for a terminal's line.
gate::GateReport sample_gate_with_long_names();

}  // namespace gradsync::test
