// What `gradsync report` writes of a run: a page, csv, Google Benchmark's JSON, a trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/published.h"
#include "harness/results/records.h"
#include "harness/results/result.h"
#include "harness/results/run_context.h"
#include "harness/results/timelines.h"

namespace gradsync::report {

struct MarkdownOptions {
  std::string raw_directory;  // named in the last line; empty: no such line
};

// Returns table.md, the page that a run prints and people paste: what ran and on what, then for
// each part of the plan what kind of compute it was, its table (of times, or of memory), notes,
// where a step went, the guide's own table where the part has its rows, and the finding in words.
// Every number comes from `result` or `references`.
std::string result_markdown(const results::Result& result, const References& references,
                            const MarkdownOptions& options = {});

// Returns result.json's cells as CSV (RFC 4180), for spreadsheets and data frames: a head line,
// then a line per cell; parameters first, names and units as in result.json. An unknown value is an
// empty field. Lines end in CR LF.
std::string result_csv(const results::Result& result);

// Our steps in Google Benchmark's JSON, for its compare.py and for services that read that format.
//
// Each timed step is one repetition ("run_type": "iteration"), so that compare.py's U test has the
// samples it needs; mean, median, stddev and cv follow as aggregates. Steps inside a block are not
// independent, which makes that test too sure of itself: `gradsync gate` is the better judge.
// The format wants a CPU time, which is not measured: it repeats the real time, and the context
// says so.
//
// Returns the document. Names read "PLAN/[PART/]TOPOLOGY/[parameters that vary/]STRATEGY", for
// example "slowdown_table/2x1/baseline". A cell without times has no entry, because compare.py
// would read the format's "error_occurred" as a time of 0 and report a gain; "not_measured" of the
// context names it and says why. `trials` are those that `result` was built from.
nlohmann::json benchmark_json(const results::Result& result,
                              const std::vector<results::TrialRecord>& trials);

// The example step of each cell as a trace that Perfetto (ui.perfetto.dev) and Chrome's
// about:tracing open: the Trace Event Format.
//
//   process  rank 0 of a cell
//     compute            |------------------------- step -------------------------|
//                        |-- forward --|------ backward ------|-- wait --|-- opt --|
//     communication                         \->|-- all_reduce bucket 0 --|>
//     communication 2                              \->|-- all_reduce bucket 1 --|>
//     memory             what the rank's tensors held, by category
//
// An arrow leads from where the rank issued a collective to where that had its result. Collectives
// that are in flight at once have rows of their own: slices of one row must nest or follow each
// other, viewers drop what overlaps.
//
// Returns {"traceEvents": [...]}: for each cell the last timed step of its last trial that ended
// well, one process per rank. Times in microseconds since the step began on the first of the ranks
// where their clocks are known (`context`, as in result.json), on each rank itself elsewhere.
// A collective that a rank issued late is divided in two: "late: rank 1" and "issued by all".
// Memory is that of a warm-up step of the last trial that recorded one, laid over the timed step.
// `timelines` has what the trials themselves do not have of it.
nlohmann::json trace_json(const results::Context& context,
                          const std::vector<results::TrialRecord>& trials,
                          const results::TimelinesFile& timelines);

}  // namespace gradsync::report
