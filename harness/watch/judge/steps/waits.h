// How long a job waited for its collectives.
//
// Where it is known what ran on a GPU: as long as their kernels ran there, nothing else computed
// (communication that is exposed) and the next computation waited for them (gpu_waits.h), since the
// host goes on at once. Where the host does the communicating: from when the last one was issued to
// when all were complete.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns how long the job waited for these, which are of one backward; absent where it is not
// known when they ended. `waits_for_each`: it may wait for each before it goes on.
std::optional<std::int64_t> waited_ns(const EventPointers& reductions, bool waits_for_each);

// Returns the same of collectives that are waited for one by one, as far as it is known.
std::int64_t waited_one_by_one_ns(const EventPointers& collectives);

}  // namespace gradsync::watch
