// The suite's models by name, with their sizes, and what they hold.   No torch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/bert_config.h"
#include "models/footprint.h"
#include "models/mixtral_shapes.h"

namespace gradsync::models {

template <typename Config>
struct SuiteModel {
  std::string name;   // as in a plan
  std::string about;  // one line for `gradsync list models`
  Config config;
};

const std::vector<SuiteModel<BertConfig>>& berts();
const std::vector<SuiteModel<MixtralConfig>>& mixtrals();

// Returns the file of a profile of the suite.
std::string profile_path(const std::string& name);

struct FootprintOptions {
  MicroBatchShape shape;
  int scale = 1;                  // of a paced model
  bool balanced_routing = false;  // of a Mixtral
};

struct DeclaredFootprint {
  std::optional<Footprint> footprint;
  std::string unknown_because;  // where there is none; else empty
};

// Returns what the model `name` of a plan, or the profile at that path, says it holds.
// Errors: ConfigError for a bad profile.
DeclaredFootprint declared_footprint(const std::string& name, const FootprintOptions& options);

}  // namespace gradsync::models
