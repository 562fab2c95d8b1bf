// Our steps in Google Benchmark's JSON, for its compare.py and for services that read that format.
//
// Each timed step is one repetition ("run_type": "iteration"), so that compare.py's U test has the
// samples it needs; mean, median, stddev and cv follow as aggregates. Steps inside a block are not
// independent, which makes that test too sure of itself: `gradsync gate` is the better judge.
// The format wants a CPU time, which is not measured: it repeats the real time, and the context
// says so.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/result.h"

namespace gradsync::report {

// Returns the document. Names read "PLAN/[PART/]TOPOLOGY/[parameters that vary/]STRATEGY", for
// example "slowdown_table/2x1/baseline". A cell without times has no entry, because compare.py
// would read the format's "error_occurred" as a time of 0 and report a gain; "not_measured" of the
// context names it and says why. `trials` are those that `result` was built from.
nlohmann::json benchmark_json(const results::Result& result,
                              const std::vector<results::TrialRecord>& trials);

}  // namespace gradsync::report
