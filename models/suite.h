// The one list of the suite's models: their names, kinds, sizes and footprints. Code that only
// needs a model's name reads it here; registry.cpp makes the models.   No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/abilities.h"
#include "models/bert_config.h"
#include "models/footprint.h"
#include "models/mixtral_shapes.h"
#include "models/unit_levers.h"

namespace gradsync::models {

enum class UntakenBranch {
  Unused,    // its parameters get no gradient
  TimesZero  // computed as well, times 0: its gradients are zeros, so that DDP gets all of them and
             // need not search. The usual way round find_unused_parameters, at twice the arithmetic
};

struct MlpConfig {};
struct ConvNetConfig {};
struct BranchingConfig {
  UntakenBranch untaken = UntakenBranch::Unused;
};
struct PacedConfig {
  std::string profile;  // path
};

using ModelConfig =
    std::variant<MlpConfig, ConvNetConfig, BranchingConfig, BertConfig, MixtralConfig, PacedConfig>;

struct SuiteModel : ModelDescription {
  ModelConfig config;
};

// In the order `list` shows them.
const std::vector<SuiteModel>& suite();

// Returns the paced model of the profile at `path`, read at once, so that a plan that names a
// missing or wrong file is refused before it runs.   Errors: ConfigError, as read_profile().
SuiteModel paced_by_file(const std::string& path);

// Returns whether a plan names a profile's path instead of a model.
bool is_profile(const std::string& name);

// Returns how the model `name` of a plan, or the profile at that path, computes. Real: also one
// that is not of the suite.
Compute compute_of(const std::string& name);

struct FootprintOptions {
  MicroBatchShape shape;
  int scale = 1;                  // of a paced model
  bool balanced_routing = false;  // of a Mixtral
  UnitLevers levers = {};
  AttentionImplementation attention = AttentionImplementation::Eager;  // of a BERT
};

struct DeclaredFootprint {
  std::optional<Footprint> footprint;
  std::string unknown_because;  // where there is none; else empty
};

// Returns the footprint of the model `name` of a plan, or of the profile at that path.
// Errors: ConfigError for a bad profile.
DeclaredFootprint declared_footprint(const std::string& name, const FootprintOptions& options);

}  // namespace gradsync::models
