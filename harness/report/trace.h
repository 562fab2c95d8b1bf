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
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/records.h"
#include "harness/results/run_context.h"
#include "harness/results/timelines.h"

namespace gradsync::report {

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
