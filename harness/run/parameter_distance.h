// How far the replicas of a model have drifted apart: not at all where gradients are synchronized,
// and a little more with every step where they are not.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/sync/wrapper.h"

namespace gradsync::run {

// Gives every rank rank 0's parameters. Collective.
void start_alike(const sync::Wrapper& model, c10d::ProcessGroup& group);

// Returns |p - q| / |q|, where p are this rank's parameters as one vector, q those of rank 0, and
// |.| is the Euclidean norm, in double precision; so 0 on rank 0. `model` replicates.
// Collective. Cost: a broadcast of the parameters, one by one.
double parameter_distance(const sync::Wrapper& model, c10d::ProcessGroup& group);

}  // namespace gradsync::run
