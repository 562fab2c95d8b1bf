#include <fmt/format.h>

#include "harness/base/errors.h"
#include "models/bert.h"
#include "models/branching.h"
#include "models/convnet.h"
#include "models/find_model.h"
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
  if (options.uninitialised) refuse("uninitialised", "true", "false");
  if (options.balanced_routing) refuse("balanced_routing", "true", "false");
  if (options.without_memory) refuse("without_memory", "true", "false");
}

void refuse_low_rank_updates(const std::string& name, const ModelOptions& options) {
  if (options.lora.rank == 0) return;
  throw ConfigError(fmt::format("lora_rank: got {} for model '{}', expected 0: only a BERT has it",
                                options.lora.rank, name));
}

void refuse_other_attention(const std::string& name, const ModelOptions& options) {
  if (options.attention == ModelOptions{}.attention) return;
  throw ConfigError(fmt::format(
      "attention: got sdpa for model '{}', expected eager: only a BERT has both", name));
}

void refuse_dtype(const std::string& name, const ModelOptions& options) {
  if (options.dtype == at::kFloat) return;
  throw ConfigError(fmt::format(
      "dtype: got {} for model '{}', expected Float: only a Mixtral, a BERT and mlp have others",
      c10::toString(options.dtype), name));
}

void check_dtype(const std::string& name, const ModelOptions& options) {
  if (options.dtype == at::kFloat || options.dtype == at::kBFloat16) return;
  throw ConfigError(fmt::format("dtype: got {} for model '{}', expected Float or BFloat16",
                                c10::toString(options.dtype), name));
}

using Made = std::shared_ptr<Model>;

// How each kind of model is made.
class Maker {
 public:
  Maker(const std::string& name, const ModelOptions& options) : name_(name), options_(options) {}

  Made operator()(const MlpConfig&) const {
    refuse_scale(name_, options_);
    refuse_mixtrals_options(name_, options_);
    refuse_low_rank_updates(name_, options_);
    check_dtype(name_, options_);
    return in_dtype(with_weights(std::make_shared<Mlp>(options_.seed, options_.device)));
  }
  Made operator()(const ConvNetConfig&) const {
    return real<ConvNet>(options_.seed, options_.device);
  }
  Made operator()(const BranchingConfig& config) const {
    return real<Branching>(config.untaken, options_.seed, options_.device);
  }
  Made operator()(const BertConfig& config) const {
    refuse_scale(name_, options_);
    refuse_mixtrals_options(name_, options_);
    check_dtype(name_, options_);
    BertConfig attending = config;
    attending.attention = options_.attention;
    return in_dtype(with_weights(std::make_shared<BertForSequenceClassification>(
        attending, options_.seed, options_.device, options_.lora)));
  }
  Made operator()(const MixtralConfig& config) const {
    refuse_scale(name_, options_);
    refuse_low_rank_updates(name_, options_);
    refuse_other_attention(name_, options_);
    check_dtype(name_, options_);
    return with_weights(std::make_shared<MixtralForCausalLM>(config, options_));
  }
  Made operator()(const PacedConfig& config) const {
    GRADSYNC_CHECK(options_.pace == nullptr, ==, false);
    if (!options_.weights.empty()) {
      throw ConfigError(fmt::format("--weights: model '{}' is paced and has none", name_));
    }
    refuse_mixtrals_options(name_, options_);
    refuse_dtype(name_, options_);
    refuse_low_rank_updates(name_, options_);
    refuse_other_attention(name_, options_);
    return std::make_shared<PacedModel>(read_profile(config.profile), options_.scale, options_.pace,
                                        options_.device);
  }

 private:
  template <typename Kind, typename... Arguments>
  Made real(const Arguments&... arguments) const {
    refuse_special_options(name_, options_);
    return with_weights(std::make_shared<Kind>(arguments...));
  }
  Made with_weights(Made model) const {
    load_weights(options_, *model);
    return model;
  }
  // Values are those of float32, rounded. Buffers are integers.
  Made in_dtype(Made model) const {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) {
      if (parameter.scalar_type() == options_.dtype) continue;
      parameter.set_data(parameter.to(options_.dtype));
    }
    return model;
  }

  const std::string& name_;
  const ModelOptions& options_;
};

ModelEntry entry_of(const SuiteModel& model) {
  const ModelDescription description = describe(model);
  return {model.name,
          model.about,
          description.compute,
          [model](const ModelOptions& options) {
            return std::visit(Maker(model.name, options), model.config);
          },
          description.has_mixtrals_options,
          description.checkpointable_units};
}

std::vector<ModelEntry> entries_of_the_suite() {
  std::vector<ModelEntry> entries;
  for (const SuiteModel& model : suite()) entries.push_back(entry_of(model));
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
  refuse_dtype(name, options);
  refuse_low_rank_updates(name, options);
  refuse_other_attention(name, options);
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
    if (entry_named(entries, entry.name) != nullptr || entry.name.empty() ||
        is_profile(entry.name)) {
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
  if (is_profile(name)) return entry_of(paced_by_file(name));
  return find_listed_model(registry(), name);
}

}  // namespace gradsync::models
