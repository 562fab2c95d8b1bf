// loss.backward(), with the moment marked at which computation ends and waiting begins.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

// Runs backward from the scalar `loss` / `divisor`, and frees its graph. Collective where the
// Reducer is armed: returns when every rank's gradients hold the mean. The recorder (may be null)
// sees Backward while this rank computes, Wait until the last bucket has arrived, and Backward
// again while the graph goes. Errors: whatever c10d throws when a peer is lost or the deadline
// passes.
void backward(at::Tensor loss, int divisor, measure::StepRecorder* recorder);

}  // namespace gradsync::sync
