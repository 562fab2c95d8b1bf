// What a job itself says of a parameter that drifts, which makes the drift a fault even where
// layers are parted among ranks: by an attribute, or by a hook that has a reduction in its code and
// never reduces. And of what no optimizer steps: what DDP made equal when it wrapped the model.
#pragma once

#include <optional>
#include <vector>

#include "harness/watch/judge/replicas.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/judge/verdicts/cause.h"

namespace gradsync::watch {

// Returns the cause by what the job says of it; nothing where it says nothing.
std::optional<Cause> meant_cause(const TrackedParameter& parameter);

// Returns whether it is certain that ranks are meant to have it alike. It is not where only some
// ranks communicate with each other, or a stage sends to the next one: these may be several models.
// A hook makes it uncertain where some reduction was large enough for this.
bool is_certainly_meant(const ParameterFate& of, const RankEvents& rank);

// Returns whether this is a weight that each rank changes by itself. It is none where its model's
// other parameters are not all equal, where some of its numbers stay as they are from look to look,
// as in a queue of samples, or where an exchange is large enough to average it now and then.
bool is_changed_apart(const ParameterFate& of, const std::vector<ParameterFate>& all,
                      const Steps& steps);

}  // namespace gradsync::watch
