// The verdict on when a job as a whole synchronizes: rules in a fixed order, of which the first
// that applies decides.
//
//   one of several processes   without a process group of c10d, or a file that names no ranks
//   one process                nothing to synchronize
//   no steps                   no optimizer stepped
//   closures                   an optimizer that runs the model by itself
//   not in the file            groups of collectives, or forwards that ran ahead
//   unwrapped                  no step ran forward of a wrapped model: bytes tell, or nothing does
//   no collective              not even those that wrap a model
//   models take turns          as a pipeline's stages do
//   replayed beside            forwards and backwards run within the backward of others
//   left behind                a backward comes behind the one that synchronized
//   steps before reduction     an optimizer within backward
//   never                      no step synchronizes
//   too early                  the last micro-batches do not
//   too often                  more micro-batches than one
//   some steps never           or a hook that may reduce by itself
//   once per step              good
//
// The order is the rule: what excuses a job comes before what accuses it, and a rule may take for
// granted that those above it do not apply.
#pragma once

#include <optional>
#include <vector>

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// Returns the verdict of the first rule that applies; arguments as judge()'s.
Verdict first_verdict(const RankEvents& rank, const Steps& steps,
                      const std::vector<StepCounts>& counts);

// Returns the verdict for a job whose usual step synchronizes more than once.
Verdict judge_excess(const RankEvents& rank, const UsualStep& usual);

// Judges a job in which no wrapped model ran, whose reductions bytes tell (steps/unwrapped.h).
// `all`: all steps that were not skipped.
Verdict judge_by_bytes(const RankEvents& rank, const Steps& steps, const Counted& all,
                       const UsualStep& usual);

// Returns the verdict for a job whose usual step synchronizes once. `wrapped`: all steps that ran a
// wrapped model; fewer than half of them can synchronize more often.
Verdict judge_once(const RankEvents& rank, const Counted& wrapped);

// Returns the verdict on replicas; nothing where there are none, or the verdict on the whole says
// all of it. `judged`: all steps that were not skipped.
std::optional<Verdict> judge_replicas(const RankEvents& rank, const Steps& steps,
                                      const Counted& judged, const UsualStep& usual);

}  // namespace gradsync::watch
