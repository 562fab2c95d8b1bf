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

// Errors: ConfigError for an option that the model cannot have.
void check(const ModelDescription& model, const ModelOptions& options) {
  const auto require = [&](const char* option, const Allowance& allowed, std::int64_t asked,
                           const std::string& got) {
    if (asked <= allowed.most) return;
    throw ConfigError(
        fmt::format("{}: got {} for model '{}': {}", option, got, model.name, allowed.because));
  };
  require("scale", model.scaling(), options.scale, std::to_string(options.scale));
  require("--weights", model.weights(), !options.weights.empty(), options.weights);
  require("uninitialised", model.no_values(), options.uninitialised, "true");
  require("without_memory", model.no_values(), options.without_memory, "true");
  require("balanced_routing", model.routing(), options.balanced_routing, "true");
  const bool is_other = options.dtype != at::kFloat;
  require("dtype", model.bfloat16(), is_other, c10::toString(options.dtype));
  require("dtype", {options.dtype == at::kBFloat16, "there are Float and BFloat16"}, is_other,
          c10::toString(options.dtype));
  const std::int64_t rank = options.lora.rank;
  require("lora_rank", model.low_rank_updates(), rank, std::to_string(rank));
  require("attention", model.attention(), options.attention != ModelOptions{}.attention, "sdpa");
}

using Made = std::shared_ptr<Model>;

// How each kind of model is made, of options that it can have.
class Maker {
 public:
  explicit Maker(const ModelOptions& options) : options_(options) {}

  Made operator()(const MlpConfig&) const {
    return in_dtype(with_weights(std::make_shared<Mlp>(options_.seed, options_.device)));
  }
  Made operator()(const ConvNetConfig&) const {
    return with_weights(std::make_shared<ConvNet>(options_.seed, options_.device));
  }
  Made operator()(const BranchingConfig& config) const {
    return with_weights(
        std::make_shared<Branching>(config.untaken, options_.seed, options_.device));
  }
  Made operator()(const BertConfig& config) const {
    BertConfig attending = config;
    attending.attention = options_.attention;
    return in_dtype(with_weights(std::make_shared<BertForSequenceClassification>(
        attending, options_.seed, options_.device, options_.lora)));
  }
  Made operator()(const MixtralConfig& config) const {
    return with_weights(std::make_shared<MixtralForCausalLM>(config, options_));
  }
  Made operator()(const PacedConfig& config) const {
    GRADSYNC_CHECK(options_.pace == nullptr, ==, false);
    return std::make_shared<PacedModel>(read_profile(config.profile), options_.scale, options_.pace,
                                        options_.device);
  }

 private:
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

  const ModelOptions& options_;
};

ModelEntry checked(ModelEntry entry) {
  const ModelDescription description = entry;
  entry.make = [description, make = std::move(entry.make)](const ModelOptions& options) {
    check(description, options);
    return make(options);
  };
  return entry;
}

ModelEntry entry_of(const SuiteModel& model) {
  return checked({model, [config = model.config](const ModelOptions& options) {
                    return std::visit(Maker(options), config);
                  }});
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
    entries.push_back(checked(entry));
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
