#include <fmt/format.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "models/bert.h"
#include "models/branching.h"
#include "models/convnet.h"
#include "models/mixtral.h"
#include "models/mlp.h"
#include "models/paced.h"
#include "models/profile.h"
#include "models/safetensors.h"
#include "models/suite.h"

namespace gradsync::models {
namespace {

void refuse_scale(const std::string& name, const ModelOptions& options) {
  if (options.scale == 1) return;
  throw ConfigError(
      fmt::format("scale: got {} for model '{}', expected 1: only the bytes of a paced "
                  "model can be scaled",
                  options.scale, name));
}

void refuse_mixtrals_options(const std::string& name, const ModelOptions& options) {
  const auto refuse = [&](const std::string& option, const std::string& got,
                          const std::string& expected) {
    throw ConfigError(fmt::format("{}: got {} for model '{}', expected {}: only a Mixtral has it",
                                  option, got, name, expected));
  };
  if (options.dtype != at::kFloat) refuse("dtype", c10::toString(options.dtype), "Float");
  if (options.uninitialised) refuse("uninitialised", "true", "false");
  if (options.balanced_routing) refuse("balanced_routing", "true", "false");
  if (options.without_memory) refuse("without_memory", "true", "false");
}

ModelEntry bert(const std::string& name, const std::string& about, const BertConfig& config) {
  return {name, about, Compute::Real, [name, config](const ModelOptions& options) {
            refuse_special_options(name, options);
            auto model = std::make_shared<BertForSequenceClassification>(config, options.seed,
                                                                         options.device);
            load_weights(options, *model);
            return model;
          }};
}

void check_dtype(const std::string& name, const ModelOptions& options) {
  if (options.dtype == at::kFloat || options.dtype == at::kBFloat16) return;
  throw ConfigError(fmt::format("dtype: got {} for model '{}', expected Float or BFloat16",
                                c10::toString(options.dtype), name));
}

ModelEntry mixtral(const std::string& name, const std::string& about, const MixtralConfig& config) {
  return {name, about, Compute::Real,
          [name, config](const ModelOptions& options) {
            refuse_scale(name, options);
            check_dtype(name, options);
            auto model = std::make_shared<MixtralForCausalLM>(config, options);
            load_weights(options, *model);
            return model;
          },
          /*has_mixtrals_options=*/true};
}

std::shared_ptr<Model> make_paced(const std::string& name, const Profile& profile,
                                  const ModelOptions& options) {
  GRADSYNC_CHECK(options.pace == nullptr, ==, false);
  if (!options.weights.empty()) {
    throw ConfigError(fmt::format("--weights: model '{}' is paced and has none", name));
  }
  refuse_mixtrals_options(name, options);
  return std::make_shared<PacedModel>(profile, options.scale, options.pace, options.device);
}

ModelEntry paced(const std::string& name, const std::string& about) {
  return {name, about, Compute::Paced, [name](const ModelOptions& options) {
            return make_paced(name, read_profile(profile_path(name)), options);
          }};
}

// Read at once, so that a plan that names a missing or wrong file is refused before it runs.
ModelEntry paced_by_file(const std::string& file) {
  const Profile profile = read_profile(file);
  return {file, profile.about, Compute::Paced, [file, profile](const ModelOptions& options) {
            return make_paced(file, profile, options);
          }};
}

ModelEntry mlp() {
  return {"mlp", "a three-layer perceptron, 0.3 M parameters: a millisecond of compute",
          Compute::Real, [](const ModelOptions& options) {
            refuse_special_options("mlp", options);
            auto model = std::make_shared<Mlp>(options.seed, options.device);
            load_weights(options, *model);
            return model;
          }};
}

ModelEntry branching(const std::string& name, const std::string& about, UntakenBranch untaken) {
  return {name, about, Compute::Real, [name, untaken](const ModelOptions& options) {
            refuse_special_options(name, options);
            auto model = std::make_shared<Branching>(untaken, options.seed, options.device);
            load_weights(options, *model);
            return model;
          }};
}

ModelEntry convnet() {
  return {"convnet", "three convolutions with batch normalization, 0.1 M parameters, for pictures",
          Compute::Real, [](const ModelOptions& options) {
            refuse_special_options("convnet", options);
            auto model = std::make_shared<ConvNet>(options.seed, options.device);
            load_weights(options, *model);
            return model;
          }};
}

std::vector<ModelEntry> entries_of_the_suite() {
  std::vector<ModelEntry> entries{
      mlp(), convnet(),
      branching("branching",
                "a perceptron, 0.6 M parameters: the data takes one of two branches, the other is "
                "unused",
                UntakenBranch::Unused),
      branching("branching_times_zero",
                "the same, where the other branch is computed as well, times 0",
                UntakenBranch::TimesZero)};
  for (const auto& model : berts()) {
    entries.push_back(bert(model.name, model.about, model.config));
  }
  for (const auto& model : mixtrals()) {
    entries.push_back(mixtral(model.name, model.about, model.config));
  }
  entries.push_back(paced("paced_bert_base_t4",
                          "bert_base at the pace of a T4, calibrated to the published table"));
  return entries;
}

// Filled before main by static objects of any file, hence made by the first of them.
std::vector<ModelEntry>& registered() {
  static std::vector<ModelEntry> entries;
  return entries;
}

}  // namespace

void refuse_special_options(const std::string& name, const ModelOptions& options) {
  refuse_scale(name, options);
  refuse_mixtrals_options(name, options);
}

void load_weights(const ModelOptions& options, Model& model) {
  if (options.weights.empty()) return;
  model.set_freshly_initialised(load_safetensors(options.weights, model).initialised);
}

Registration::Registration(ModelEntry entry) {
  registered().push_back(std::move(entry));
}

std::vector<ModelEntry> with_registered(std::vector<ModelEntry> entries,
                                        const std::vector<ModelEntry>& registered) {
  for (const ModelEntry& entry : registered) {
    const bool taken = std::ranges::find(entries, entry.name, &ModelEntry::name) != entries.end();
    if (taken || entry.name.empty() || entry.name.ends_with(".json")) {
      throw ConfigError(fmt::format(
          "a linked model: got the name '{}', expected one that no other model has and that does "
          "not end in .json, as profiles do",
          entry.name));
    }
    entries.push_back(entry);
  }
  return entries;
}

const std::vector<ModelEntry>& registry() {
  static const std::vector<ModelEntry> entries =
      with_registered(entries_of_the_suite(), registered());
  return entries;
}

ModelEntry find_model(const std::string& name) {
  if (name.ends_with(".json")) return paced_by_file(name);
  try {
    return find_named(registry(), "model", name);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}, or a profile's path ending in .json", error.what()));
  }
}

}  // namespace gradsync::models
