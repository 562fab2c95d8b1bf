// What a step of a rank computes (harness/gate/work.h).
#pragma once

#include "harness/gate/work.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns what the process did in the last of its steps in which that was counted; nothing where
// it was counted in none.
std::optional<gate::RankWork> last_counted_work(const RankEvents& process, const Steps& steps);

// Returns what all but a quarter of the steps of `usual` have in common, of those whose work was
// counted; nothing where it was counted of none. The first of them, in which DDP arranges its
// buckets, is left out where there are others. Lines are those of the last step.
std::optional<gate::RankWork> usual_work(const RankEvents& process, const UsualStep& usual);

}  // namespace gradsync::watch
