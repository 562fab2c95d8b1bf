// Optimizers that come and go, each with a copy of a model that it trains for a few steps: those of
// a meta-learner (MAML, Reptile), whose ranks train other copies on purpose.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "harness/watch/judge/replicas.h"

namespace gradsync::watch {

// Returns the numbers of such optimizers of the lowest rank. Four things tell them from an
// optimizer whose gradients should be reduced: ranks keep none of its parameters equal; the job
// made it at a line at which it made others, three of which had stepped and were gone when it made
// one more; three of that line began with values that another optimizer's parameters had, which
// ranks do keep equal; and none began with what another one of that line had left.
std::set<std::int64_t> optimizers_of_passing_copies(const std::vector<ParameterFate>& fates,
                                                    const RankEvents& rank);

}  // namespace gradsync::watch
