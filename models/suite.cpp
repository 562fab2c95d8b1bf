#include "models/suite.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "harness/base/program_files.h"
#include "models/footprints.h"
#include "models/replay.h"

namespace gradsync::models {
namespace {

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

// Tokens of a micro-batch. For more tokens, a GPU sorts the indices of an embedding's gradient.
// Source: embedding_dense_backward_cuda in aten/src/ATen/native/cuda/Embedding.cu, torch 2.11.
constexpr std::int64_t kMostUnsortedTokens = 3072;

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
    if (is_on_gpu() && options_.attention == AttentionImplementation::Sdpa) return unfused();
    if (is_on_gpu() && options_.shape.tokens() > kMostUnsortedTokens) {
      return {std::nullopt,
              fmt::format("a BERT declares what it holds on a GPU for up to {} tokens",
                          kMostUnsortedTokens)};
    }
    BertConfig attending = config;
    attending.attention = options_.attention;
    auto footprint = bert_footprint(attending, options_.shape, options_.levers);
    if (footprint) return {std::move(footprint), ""};
    return {std::nullopt,
            fmt::format("a BERT declares what it holds for 2 or more examples of 2 to {} tokens",
                        config.positions)};
  }
  DeclaredFootprint operator()(const MixtralConfig& config) const {
    if (is_on_gpu()) return unfused();
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
    if (is_on_gpu()) return {std::nullopt, "a paced model declares what it holds on the CPU"};
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

  bool is_on_gpu() const { return options_.levers.kernels.are_gpus; }
  DeclaredFootprint unfused() const {
    return {std::nullopt,
            "which kernels a GPU takes for scaled_dot_product_attention is not declared"};
  }
  DeclaredFootprint undeclared() const {
    return {std::nullopt, fmt::format("the model '{}' does not declare what it holds", name_)};
  }

 private:
  const std::string& name_;
  const FootprintOptions& options_;
};

// What each kind of model can do.

SuiteModel mlp_model(const std::string& name, const std::string& about) {
  return {{.name = name,
           .about = about,
           .has_bfloat16 = true,
           .checkpointable_units = kMlpWidths.size() - 1},
          MlpConfig{}};
}

// Batch normalization of a checkpointed unit would note its statistics twice.
SuiteModel convnet_model(const std::string& name, const std::string& about) {
  return {{.name = name, .about = about, .reads_pictures = true}, ConvNetConfig{}};
}

SuiteModel branching_model(const std::string& name, const std::string& about,
                           UntakenBranch untaken) {
  return {{.name = name, .about = about}, BranchingConfig{untaken}};
}

SuiteModel bert_model(const std::string& name, const std::string& about, const BertConfig& config) {
  return {{.name = name,
           .about = about,
           .has_bfloat16 = true,
           .longest_sequence = config.positions,
           .checkpointable_units = static_cast<int>(config.layers),
           .highest_lora_rank = config.hidden,
           .chooses_attention = true},
          config};
}

SuiteModel mixtral_model(const std::string& name, const std::string& about,
                         const MixtralConfig& config) {
  return {{.name = name,
           .about = about,
           .has_mixtrals_options = true,
           .has_bfloat16 = true,
           .checkpointable_units = static_cast<int>(config.layers)},
          config};
}

SuiteModel paced_model(const std::string& name, const std::string& about,
                       const std::string& profile, int layers, bool replays) {
  return {{.name = name,
           .about = about,
           .compute = Compute::Paced,
           .checkpointable_units = layers,
           .replays_memory = replays},
          PacedConfig{profile}};
}

}  // namespace

const std::vector<SuiteModel>& suite() {
  static const std::vector<SuiteModel> models{
      mlp_model("mlp", "a three-layer perceptron, 0.3 M parameters: a millisecond of compute"),
      convnet_model("convnet",
                    "three convolutions with batch normalization, 0.1 M parameters, for pictures"),
      branching_model(
          "branching",
          "a perceptron, 0.6 M parameters: the data takes one of two branches, the other is "
          "unused",
          UntakenBranch::Unused),
      branching_model("branching_times_zero",
                      "the same, where the other branch is computed as well, times 0",
                      UntakenBranch::TimesZero),
      bert_model("bert_tiny", "BERT, 2 layers x 128", kBertTiny),
      bert_model("bert_mini", "BERT, 4 layers x 256", kBertMini),
      bert_model("bert_base", "bert-base-cased with 2 labels: 12 layers x 768, 108.3 M parameters",
                 {}),
      mixtral_model("mixtral_tiny", "Mixtral, 2 layers x 64, 8 experts: 0.5 M parameters",
                    kMixtralTiny),
      mixtral_model("mixtral_mini", "Mixtral, 4 layers x 256, 8 experts: 31 M parameters",
                    kMixtralMini),
      mixtral_model("mixtral_8x7b", "Mixtral-8x7B: 32 layers x 4096, 8 experts, 46.7 G parameters",
                    {}),
      paced_model("paced_bert_base_t4",
                  "bert_base at the pace of a T4, calibrated to the published table",
                  data_file("models/profiles/paced_bert_base_t4.json"), 14, false)};
  return models;
}

bool is_profile(const std::string& name) {
  return name.ends_with(".json");
}

Compute compute_of(const std::string& name) {
  if (is_profile(name)) return Compute::Paced;
  const SuiteModel* model = entry_named(suite(), name);
  return model == nullptr ? Compute::Real : model->compute;
}

SuiteModel paced_by_file(const std::string& path) {
  const Profile profile = read_profile(path);
  if (profile.layers.empty()) {
    throw ConfigError(fmt::format(
        "{}: field 'layers': got none, expected them: it was recorded without times, so "
        "its memory can be predicted, but it cannot run",
        path));
  }
  return paced_model(path, profile.about, path, static_cast<int>(profile.layers.size()),
                     !replay_of(profile, 1).empty());
}

DeclaredFootprint declared_footprint(const std::string& name, const FootprintOptions& options) {
  const Declared declared(name, options);
  const SuiteModel* model = is_profile(name) ? nullptr : entry_named(suite(), name);
  const Allowance lora =
      (model == nullptr ? ModelDescription{} : ModelDescription(*model)).low_rank_updates();
  if (options.levers.lora.rank > lora.most) {
    return {std::nullopt, fmt::format("lora_rank: got {} for model '{}': {}",
                                      options.levers.lora.rank, name, lora.because)};
  }
  if (is_profile(name)) return declared(PacedConfig{.profile = name});
  return model == nullptr ? declared.undeclared() : std::visit(declared, model->config);
}

}  // namespace gradsync::models
