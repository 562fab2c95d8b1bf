// The steps of a job that trains several models, model by model.
#pragma once

#include <vector>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {

// Models that share micro-batches, directly or by a third, with the micro-batches that they ran in.
struct ModelSteps {
  Models models;
  Steps steps;  // those of the job in which they ran, without the micro-batches of others
};

// Returns them in the order in which they first ran; one where all share micro-batches. Empty where
// it is not known which model ran.
std::vector<ModelSteps> by_model(const Steps& steps);

}  // namespace gradsync::watch
