// Checkpointed units, told to a rank's clock and meter: what runs again in backward is a phase and
// a place of its own.
#pragma once

#include "harness/measure/step_recorder.h"
#include "models/model.h"

namespace gradsync::sync {

// Returns what `model` is to be told (Model::set_recomputation) so that it checkpoints `units`. The
// recorder (may be null) sees Recompute where one runs again, and Backward after it.
models::Recomputation recomputation_of(const models::Model& model, models::CheckpointedUnits units,
                                       measure::StepRecorder* recorder);

}  // namespace gradsync::sync
