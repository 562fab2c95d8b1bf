// What a job's account asks of all its steps: whether ranks may have parts of one model, or average
// its parameters now and then, and which steps cleared gradients unread.
#pragma once

#include <vector>

#include "harness/account/account_verdict.h"
#include "harness/watch/judge/step_kinds.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Whether it moves tokens to experts, or activations to the next stage of a pipeline.
bool sends_parts(const Event& collective);

// Whether in most steps gradients of other ranks' micro-batches may reach this rank's parameters,
// by what ranks exchange in backward.
bool exchange_activations(const Steps& steps);

// `kinds`: Watched's.
account::SeenBeside seen_beside(const std::vector<RankEvents>& processes,
                                const std::vector<StepKind>& kinds);

}  // namespace gradsync::watch
