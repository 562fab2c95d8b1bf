// One optimizer step of a watched job in the terms in which trials are compared (harness/gate/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/gate/held_counts.h"
#include "harness/results/records.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns the collectives of a step: of its micro-batches in their order, those outside of them as
// of micro-batch -1, first. A size that is not known is -1. Times are since the step began.
std::vector<results::TimelineEvent> timeline_of(const Step& step);

// Returns the most that tensors held until the step ended.
Known<std::int64_t> peak_until(const Step& step);

// Returns `peak`, of a process with such a step, where the same job started again has it again.
// Under FSDP it need not: gloo's threads free their copies of what is sent when Python lets them.
Known<std::int64_t> repeatable_peak(const Step& step, const Known<std::int64_t>& peak);

// Puts into `trial` what each process communicated in the step with this index, from 0: the
// timeline of it, and their sums on the lowest rank; and the peak of its tensors until then, where
// that is known and repeatable. `processes` must be those of the job's ranks, by rank; `who` is
// whose they are, for messages.
// Errors: ConfigError where the boundaries of the steps up to it are not known, because several
// optimizers step together.
void count_step(const std::vector<RankEvents>& processes, std::size_t step, const std::string& who,
                results::TrialRecord& trial);

// Returns what each of these processes computed in the last step in which that was counted, without
// those in which it never was. The version of torch is the caller's to say.
gate::HeldWork last_counted_work(const std::vector<RankEvents>& processes);

// Returns the processes with what they did in their first `steps` steps alone, and the peak of
// their tensors until then.
std::vector<RankEvents> first_steps(std::vector<RankEvents> processes, std::size_t steps);

struct UsualCounts {
  gate::HeldCounts counts;  // of the ranks that took a step
  // "2 of 9 steps of rank 1 have the collectives of its usual one": of the first rank of which
  // fewer than half have, so that the next start may well have others; "": of none.
  std::string unsteady;
};

// Returns the counts of the usual step (usual_step.h) of those of the job's processes that count
// (examined.h). Where the job took no step, they have no ranks.
UsualCounts usual_counts(const std::vector<RankEvents>& processes);

}  // namespace gradsync::watch
