// What a step computes and which gradients it makes, layer by layer: all that a prediction knows of
// a model.   No torch, pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/profile.h"

namespace gradsync::predict {

struct Layer {
  std::string name;
  double forward_s = 0;  // of one micro-batch
  double backward_s = 0;
  std::vector<std::int64_t> elements;  // of each parameter, in registration order
};

struct StepModel {
  std::string name;
  std::vector<Layer> layers;               // in the order of forward
  double optimizer_s = 0;                  // of one step
  std::vector<std::int64_t> buffer_bytes;  // broadcast by DDP as one message, of one dtype

  double forward_s() const;  // of one micro-batch
  double backward_s() const;
  std::int64_t elements() const;
};

// Returns the model of a profile whose tensors' elements are divided by `scale`, as those of a
// paced model are.   Errors: ConfigError where the profile has no layers; it says what to record.
StepModel step_model_of(const models::Profile& profile, int scale);

}  // namespace gradsync::predict
