// The ranks of a job with all that is derived from each, and figures over all of them.
//
// Times of several ranks are compared where they went through the same steps: the rank that comes
// last to a collective waits for the wire alone, the others for that rank as well. Groups of ranks
// that replicate each other's shards wait side by side, on a link that they may share: the step
// goes on when the last of them does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/judge/verdicts/model_verdicts.h"
#include "harness/watch/judge/verdicts/verdict.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// One rank. `seen` must outlive it.
struct Examined {
  explicit Examined(const RankEvents& seen);

  const RankEvents* events;
  Steps steps;
  std::vector<StepCounts> counts;
  std::vector<ModelVerdict> models;  // empty: it trains one
  std::vector<Verdict> verdicts;
  std::vector<int> replicas;  // the ranks that all-reduce the same shards; empty: none do
};

std::vector<const RankEvents*> events_of(const std::vector<Examined>& ranks);

// Returns these, examined.
std::vector<Examined> examined(const std::vector<RankEvents>& processes);

// Returns those whose times can be compared: all, or the first alone where they did not go through
// the same steps. `ranks` must not be empty.
std::span<const Examined> comparable(const std::vector<Examined>& ranks);

// Returns how long step `index` waited, in seconds: the least over ranks that replicate each other,
// and the most over such groups. `ranks` must not be empty. Nothing where one of them does not know
// it.
std::optional<double> waited_s(std::span<const Examined> ranks, std::size_t index,
                               std::optional<std::int64_t> StepCounts::*time_ns);

// Returns the rank that came last to the last synchronization of step `index`: the others waited
// for it. Unknown where it is not known when one of them came, or where one on another host came so
// soon before it that their clocks do not tell which was the later.
Known<int> latest_rank(std::span<const Examined> ranks, std::size_t index);

}  // namespace gradsync::watch
