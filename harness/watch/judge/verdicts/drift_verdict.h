// Whether ranks drift: gradients that no backward synchronizes.
//
// A job that makes its ranks alike by itself is none of these: what ranks exchange outside of
// backward, if it is more than a loss or a norm, may be gradients or parameters.
#pragma once

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// Returns whether ranks exchange enough outside of backward to be kept alike by hand.
bool averages_by_hand(const RankEvents& rank, const Steps& steps);

// Returns the verdict for a job in which no step with a wrapped model synchronizes.
Verdict judge_never(const RankEvents& rank, const Steps& steps, const UsualStep& usual);

// Returns the verdict for a job whose usual step has micro-batches after the last that
// synchronizes.
Verdict judge_too_early(const RankEvents& rank, const Steps& steps, const UsualStep& usual);

// Returns the verdict that some steps do not synchronize.
Verdict some_steps_never(const Counted& all);

// Returns the verdict for a job some of whose steps synchronize. `wrapped`: all that ran a wrapped
// model.
Verdict judge_some_never(const RankEvents& rank, const Steps& steps, const Counted& wrapped);

// Returns the verdict for a job in which no step ran the forward of a wrapped model.
Verdict judge_unwrapped(const RankEvents& rank, const Steps& steps, const Counted& judged);

}  // namespace gradsync::watch
