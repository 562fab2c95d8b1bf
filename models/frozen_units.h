// Frozen units: parameters that are not trained, and so have no gradient, no moments and no place
// in any reduction.
//
//   registered   embeddings | unit 0 | unit 1 | unit 2 | ... | head
//   frozen 2     ========== frozen ==========| trained
//
// Autograd begins where something is trained: what is frozen before that keeps no activations and
// has no backward.
#pragma once

#include "models/model.h"

namespace gradsync::models {

// Freezes the first `count` units of `model` and all that is registered before them; 0: nothing.
// Call it before the model is wrapped.
// Errors: ConfigError where it has fewer units, or nothing would be left to train.
void freeze_units(Model& model, int count);

}  // namespace gradsync::models
