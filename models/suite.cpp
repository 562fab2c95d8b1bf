#include "models/suite.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "harness/base/program_files.h"
#include "models/footprints.h"
#include "models/mlp_sizes.h"
#include "models/replay.h"

namespace gradsync::models {
namespace {

std::string profile_path(const std::string& name) {
  return data_file("models/profiles/" + name + ".json");
}

constexpr BertConfig kBertTiny{.layers = 2, .hidden = 128, .heads = 2, .intermediate = 512};
constexpr BertConfig kBertMini{.layers = 4, .hidden = 256, .heads = 4, .intermediate = 1024};
constexpr MixtralConfig kMixtralTiny{.layers = 2,
                                     .hidden = 64,
                                     .heads = 4,
                                     .key_value_heads = 2,
                                     .intermediate = 128,
                                     .vocabulary = 1000};
constexpr MixtralConfig kMixtralMini{.layers = 4,
                                     .hidden = 256,
                                     .heads = 8,
                                     .key_value_heads = 2,
                                     .intermediate = 896,
                                     .vocabulary = 16000};

// What each kind of model declares.
class Declared {
 public:
  Declared(const std::string& name, const FootprintOptions& options)
      : name_(name), options_(options) {}

  DeclaredFootprint operator()(const MlpConfig&) const {
    return {mlp_footprint(options_.shape, options_.levers), ""};
  }
  DeclaredFootprint operator()(const ConvNetConfig&) const {
    return {std::nullopt, "what a convolution's kernels hold depends on the processor"};
  }
  DeclaredFootprint operator()(const BranchingConfig&) const { return undeclared(); }
  DeclaredFootprint operator()(const BertConfig& config) const {
    BertConfig attending = config;
    attending.attention = options_.attention;
    auto footprint = bert_footprint(attending, options_.shape, options_.levers);
    if (footprint) return {std::move(footprint), ""};
    return {std::nullopt,
            fmt::format("a BERT declares what it holds for 2 or more examples of 2 to {} tokens",
                        config.positions)};
  }
  DeclaredFootprint operator()(const MixtralConfig& config) const {
    if (!options_.balanced_routing) {
      return {std::nullopt,
              "the router is free to choose, and what its experts hold depends on the data"};
    }
    if (options_.levers.element_bytes != kFloatBytes) {
      return {std::nullopt,
              "in bfloat16 the CPU's fused attention packs its operands on some processors"};
    }
    return {mixtral_footprint(config, options_.shape, options_.levers), ""};
  }
  DeclaredFootprint operator()(const PacedConfig& config) const {
    if (options_.levers.element_bytes != kFloatBytes) {
      return {std::nullopt, "a paced model declares what it holds in float32"};
    }
    const Profile profile = read_profile(config.profile);
    if (options_.levers.checkpointed.every > 0 && !replay_of(profile, options_.scale).empty()) {
      return {std::nullopt,
              "a profile holds what was recorded: record the model with its activation "
              "checkpointing"};
    }
    return {paced_footprint(profile, options_.scale), ""};
  }

  DeclaredFootprint undeclared() const {
    return {std::nullopt, fmt::format("the model '{}' does not declare what it holds", name_)};
  }

 private:
  const std::string& name_;
  const FootprintOptions& options_;
};

// What may be checkpointed. A convolution's batch normalization would note its statistics twice,
// and a branching model has no units.
struct UnitsThatRunAgain {
  int operator()(const MlpConfig&) const { return kMlpWidths.size() - 1; }
  int operator()(const BertConfig& config) const { return static_cast<int>(config.layers); }
  int operator()(const MixtralConfig& config) const { return static_cast<int>(config.layers); }
  int operator()(const PacedConfig& config) const { return config.layers; }
  template <typename Other>
  int operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

const std::vector<SuiteModel>& suite() {
  static const std::vector<SuiteModel> models{
      {"mlp", "a three-layer perceptron, 0.3 M parameters: a millisecond of compute", MlpConfig{}},
      {"convnet", "three convolutions with batch normalization, 0.1 M parameters, for pictures",
       ConvNetConfig{}},
      {"branching",
       "a perceptron, 0.6 M parameters: the data takes one of two branches, the other is unused",
       BranchingConfig{UntakenBranch::Unused}},
      {"branching_times_zero", "the same, where the other branch is computed as well, times 0",
       BranchingConfig{UntakenBranch::TimesZero}},
      {"bert_tiny", "BERT, 2 layers x 128", kBertTiny},
      {"bert_mini", "BERT, 4 layers x 256", kBertMini},
      {"bert_base", "bert-base-cased with 2 labels: 12 layers x 768, 108.3 M parameters",
       BertConfig{}},
      {"mixtral_tiny", "Mixtral, 2 layers x 64, 8 experts: 0.5 M parameters", kMixtralTiny},
      {"mixtral_mini", "Mixtral, 4 layers x 256, 8 experts: 31 M parameters", kMixtralMini},
      {"mixtral_8x7b", "Mixtral-8x7B: 32 layers x 4096, 8 experts, 46.7 G parameters",
       MixtralConfig{}},
      {"paced_bert_base_t4", "bert_base at the pace of a T4, calibrated to the published table",
       PacedConfig{.profile = profile_path("paced_bert_base_t4"), .layers = 14}}};
  return models;
}

ModelDescription describe(const SuiteModel& model) {
  ModelDescription description{.name = model.name, .about = model.about};
  if (const auto* paced = std::get_if<PacedConfig>(&model.config)) {
    description.compute = Compute::Paced;
    description.replays_memory = paced->replays;
  }
  description.has_mixtrals_options = std::holds_alternative<MixtralConfig>(model.config);
  description.has_bfloat16 = description.has_mixtrals_options ||
                             std::holds_alternative<BertConfig>(model.config) ||
                             std::holds_alternative<MlpConfig>(model.config);
  description.reads_pictures = std::holds_alternative<ConvNetConfig>(model.config);
  if (const auto* bert = std::get_if<BertConfig>(&model.config)) {
    description.longest_sequence = bert->positions;
    description.highest_lora_rank = bert->hidden;
    description.chooses_attention = true;
  }
  description.checkpointable_units = std::visit(UnitsThatRunAgain(), model.config);
  return description;
}

bool is_profile(const std::string& name) {
  return name.ends_with(".json");
}

SuiteModel paced_by_file(const std::string& path) {
  const Profile profile = read_profile(path);
  if (profile.layers.empty()) {
    throw ConfigError(fmt::format(
        "{}: field 'layers': got none, expected them: it was recorded without times, so "
        "its memory can be predicted, but it cannot run",
        path));
  }
  return {path, profile.about,
          PacedConfig{.profile = path,
                      .layers = static_cast<int>(profile.layers.size()),
                      .replays = !replay_of(profile, 1).empty()}};
}

DeclaredFootprint declared_footprint(const std::string& name, const FootprintOptions& options) {
  const Declared declared(name, options);
  const SuiteModel* model = is_profile(name) ? nullptr : entry_named(suite(), name);
  const std::int64_t highest = model == nullptr ? 0 : describe(*model).highest_lora_rank;
  if (options.levers.lora.rank > highest) {
    return {std::nullopt, fmt::format("'{}' has low-rank updates of rank 0 to {}, got {}", name,
                                      highest, options.levers.lora.rank)};
  }
  if (is_profile(name)) return declared(PacedConfig{.profile = name});
  return model == nullptr ? declared.undeclared() : std::visit(declared, model->config);
}

}  // namespace gradsync::models
