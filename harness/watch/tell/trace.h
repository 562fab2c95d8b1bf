// The last steps of a watched job as a trace for Perfetto (ui.perfetto.dev) and about:tracing.
//
//   process  rank 0
//     compute          |-------------------------- step 5 --------------------------|
//                      |-- forward --|---- backward ----|-- forward --|...|-- optim.|
//     communication                     \->|-- all_reduce --|
//     communication 2                        \->|-- all_reduce --|
//
// As that of a run (harness/report/formats.h). What overlaps without one lying inside of the other,
// such as models that train in threads of their own, has rows of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// As many steps are drawn of each rank, the last ones. Larger: a longer file, which viewers open
// slowly; a step of BERT-base has some 80 slices.
inline constexpr std::size_t kMostTracedSteps = 10;

// Returns {"traceEvents": [...]} of the processes that train (training_processes): steps, and in
// them forwards and backwards of training, optimizers and collectives. A collective whose end is
// not known is as short as can be seen. Microseconds since the first of the steps.
nlohmann::json watch_trace(const std::vector<RankEvents>& processes);

}  // namespace gradsync::watch
