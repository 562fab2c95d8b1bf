// Whether the replicas of sharded models are synchronized when they should: hybrid sharding adds
// gradients up among shards and then all-reduces what each has with its replicas. The second can
// wait for the last micro-batch of a step at no cost of memory.
#pragma once

#include <optional>

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// Returns the verdict on replicas; nothing where there are none, or the verdict on the whole says
// all of it. `judged`: all steps that were not skipped.
std::optional<Verdict> judge_replicas(const RankEvents& rank, const Steps& steps,
                                      const Counted& judged, const UsualStep& usual);

}  // namespace gradsync::watch
