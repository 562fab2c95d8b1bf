// Whether a job that does synchronize does so more often than once per step.
#pragma once

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// Of a job whose usual step synchronizes more than once.
Verdict judge_excess(const RankEvents& rank, const UsualStep& usual);

// Of a job whose usual step synchronizes once. `wrapped`: all steps that ran a wrapped model, of
// which fewer than half can synchronize more often.
Verdict judge_once(const RankEvents& rank, const Counted& wrapped);

}  // namespace gradsync::watch
