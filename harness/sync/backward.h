// loss.backward(), with the moment marked at which computation ends and waiting begins.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

// Runs backward from the scalar `loss`. Collective where the Reducer is armed: returns when every
// rank's gradients hold the mean. The recorder (may be null) sees Backward while this rank
// computes, then Wait until the last bucket has arrived. Errors: whatever c10d throws when a peer
// is lost or the deadline passes.
void backward(const at::Tensor& loss, measure::StepRecorder* recorder);

}  // namespace gradsync::sync
