// A compute profile: how long each layer of a model takes on another machine, and which parameters
// it has. Data for paced models. Newer ones also say what the model itself holds in a micro-batch.
// No torch. The format's meaning is in profiles/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/memory_profile.h"

namespace gradsync::models {

struct ProfileTensor {
  std::string name;  // dotted, as named_parameters() has it
  std::vector<std::int64_t> shape;
  std::int64_t elements() const;
};

struct ProfileLayer {
  std::string name;
  double forward_s = 0;  // of one micro-batch
  double backward_s = 0;
  std::vector<ProfileTensor> parameters;  // in registration order
};

struct Profile {
  std::string name;
  std::string about;
  std::vector<ProfileLayer> layers;    // in the order of forward; none: recorded without times
  double optimizer_s = 0;              // of one step
  std::vector<ProfileTensor> buffers;  // int64, as the position ids they stand for
  std::optional<MemoryProfile> memory;
};

// Returns the profile in `path` (schema gradsync.profile/1; float32 parameters).
// Errors: ConfigError with file, field, got, expected: also for a tensor named twice and for a
// profile without parameters, and for one with neither layers nor memory.
Profile read_profile(const std::string& path);

}  // namespace gradsync::models
