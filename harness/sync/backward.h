// loss.backward(), which marks the moments at which computation ends, waiting begins, and
// checkpointed units run again.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "harness/measure/step_recorder.h"
#include "models/model.h"

namespace gradsync::sync {

// Which backward of this process was the first whose loss was infinite or NaN.
class LossWatch {
 public:
  // Forgets all losses; the next backward is number 0.
  void clear() { *this = {}; }
  // Looks at the next loss. A loss on a device is only counted: reading it would wait for the
  // device.
  void note(const at::Tensor& loss);
  // Skips the next backward, which does not run but keeps its number.
  void pass_over() { ++count_; }
  std::optional<int> first_non_finite() const { return first_; }

 private:
  int count_ = 0;
  std::optional<int> first_;
};

// Returns the record to which backward() adds every loss.
LossWatch& loss_watch();

// Runs backward from the scalar `loss` / `divisor`, and frees its graph. Collective where the
// Reducer is armed: returns when every rank's gradients hold the mean. The recorder (may be null)
// sees Backward while this rank computes, Wait until the last bucket has arrived, with a Copy for
// each that is copied back meanwhile, and Backward again while the graph goes. Errors: whatever
// c10d throws when a peer is lost or the deadline passes.
void backward(at::Tensor loss, int divisor, measure::StepRecorder* recorder);

// Returns the argument of Model::set_recomputation with which `model` checkpoints `units`. The
// recorder (may be null) sees Recompute where one runs again, and Backward after it.
models::Recomputation recomputation_of(const models::Model& model, models::CheckpointedUnits units,
                                       measure::StepRecorder* recorder);

}  // namespace gradsync::sync
