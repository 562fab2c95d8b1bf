#include "models/suite.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/build_info.h"
#include "models/footprints.h"

namespace gradsync::models {
namespace {

template <typename Config>
const Config* config_of(const std::vector<SuiteModel<Config>>& models, const std::string& name) {
  const auto found = std::ranges::find(models, name, &SuiteModel<Config>::name);
  return found == models.end() ? nullptr : &found->config;
}

DeclaredFootprint bert(const BertConfig& config, const MicroBatchShape& shape) {
  if (auto footprint = bert_footprint(config, shape)) return {std::move(footprint), ""};
  return {std::nullopt,
          fmt::format("a BERT declares what it holds for 2 or more examples of 2 to {} tokens",
                      config.positions)};
}

DeclaredFootprint mixtral(const MixtralConfig& config, const FootprintOptions& options) {
  if (!options.balanced_routing) {
    return {std::nullopt,
            "the router is free to choose, and what its experts hold depends on the data"};
  }
  return {mixtral_footprint(config, options.shape), ""};
}

}  // namespace

const std::vector<SuiteModel<BertConfig>>& berts() {
  static const std::vector<SuiteModel<BertConfig>> models{
      {"bert_tiny",
       "BERT, 2 layers x 128",
       {.layers = 2, .hidden = 128, .heads = 2, .intermediate = 512}},
      {"bert_mini",
       "BERT, 4 layers x 256",
       {.layers = 4, .hidden = 256, .heads = 4, .intermediate = 1024}},
      {"bert_base", "bert-base-cased with 2 labels: 12 layers x 768, 108.3 M parameters", {}}};
  return models;
}

const std::vector<SuiteModel<MixtralConfig>>& mixtrals() {
  static const std::vector<SuiteModel<MixtralConfig>> models{
      {"mixtral_tiny",
       "Mixtral, 2 layers x 64, 8 experts: 0.5 M parameters",
       {.layers = 2,
        .hidden = 64,
        .heads = 4,
        .key_value_heads = 2,
        .intermediate = 128,
        .vocabulary = 1000}},
      {"mixtral_mini",
       "Mixtral, 4 layers x 256, 8 experts: 31 M parameters",
       {.layers = 4,
        .hidden = 256,
        .heads = 8,
        .key_value_heads = 2,
        .intermediate = 896,
        .vocabulary = 16000}},
      {"mixtral_8x7b", "Mixtral-8x7B: 32 layers x 4096, 8 experts, 46.7 G parameters", {}}};
  return models;
}

std::string profile_path(const std::string& name) {
  return build_info().source_dir + "/models/profiles/" + name + ".json";
}

DeclaredFootprint declared_footprint(const std::string& name, const FootprintOptions& options) {
  if (name == "mlp") return {mlp_footprint(options.shape), ""};
  if (name == "convnet") {
    return {std::nullopt, "what a convolution's kernels hold depends on the processor"};
  }
  if (const BertConfig* config = config_of(berts(), name)) return bert(*config, options.shape);
  if (const MixtralConfig* config = config_of(mixtrals(), name)) return mixtral(*config, options);
  if (name.ends_with(".json")) return {paced_footprint(read_profile(name), options.scale), ""};
  if (name.starts_with("paced_")) {
    return {paced_footprint(read_profile(profile_path(name)), options.scale), ""};
  }
  return {std::nullopt, fmt::format("the model '{}' does not declare what it holds", name)};
}

}  // namespace gradsync::models
