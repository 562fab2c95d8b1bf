// What a step computes and which gradients it makes, layer by layer: all that a prediction knows
// about a model. No torch, pure.
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
  double optimizer_s = 0;                  // of one step, of all parameters
  std::vector<std::int64_t> buffer_bytes;  // broadcast by DDP as one message, of one dtype

  // fsdp, of a model that computes: elements in no unit, gathered before forward and kept until
  // backward is over; and whether a rank steps its shard alone, or as long as all of it takes.
  std::int64_t root_elements = 0;
  bool shards_optimizer = false;

  double forward_s() const;  // of one micro-batch
  double backward_s() const;
  std::int64_t elements() const;
};

// Returns the model of a profile whose tensors' elements are divided by `scale`, as those of a
// paced model are.   Errors: ConfigError where the profile has no layers; it says what to record.
StepModel step_model_of(const models::Profile& profile, int scale);

// Returns the model as fully_shard divides it, given the modules `units`: the layers of a unit
// become one, and parameters of the others are the root's.
StepModel divided_into(const std::vector<std::string>& units, const StepModel& model);

}  // namespace gradsync::predict
