#include "models/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "harness/base/errors.h"
#include "models/checkpoint.h"
#include "models/lora.h"

namespace gradsync::models {
namespace {

// What a checkpoint trained for another task lacks; from_pretrained leaves these at random.
bool may_be_missing(const std::string& parameter) {
  return parameter.starts_with("classifier.") || parameter.starts_with("bert.pooler.");
}

// What this model has no parameter for: other tasks' heads, and buffers that older versions stored.
bool may_be_unused(const std::string& parameter) {
  return parameter.starts_with("cls.") || parameter == "bert.embeddings.position_ids" ||
         parameter == "bert.embeddings.token_type_ids";
}

void replace_ending(std::string& name, const std::string& ending, const std::string& by) {
  if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), by);
}

// Returns today's name for a stored tensor.
std::string parameter_name(std::string stored) {
  for (const char* part : {"embeddings.", "encoder.", "pooler."}) {
    if (stored.starts_with(part)) {
      stored.insert(0, "bert.");
      break;
    }
  }
  replace_ending(stored, "LayerNorm.gamma", "LayerNorm.weight");
  replace_ending(stored, "LayerNorm.beta", "LayerNorm.bias");
  return stored;
}

// Parameter name -> name in the checkpoint.
std::map<std::string, std::string> stored_names(const Checkpoint& checkpoint) {
  std::map<std::string, std::string> names;
  for (const auto& [stored, file] : checkpoint.tensors()) {
    const auto [first, is_new] = names.emplace(parameter_name(stored), stored);
    if (!is_new) {
      throw ConfigError(file->path(), stored, "a second tensor for " + first->first,
                        fmt::format("only '{}'", first->second));
    }
  }
  return names;
}

void copy(const SafetensorsFile& file, const std::string& stored, at::Tensor& parameter) {
  const StoredTensor& tensor = file.tensors().at(stored);
  if (parameter.sizes() != at::IntArrayRef(tensor.shape)) {
    throw ConfigError(file.path(), stored, fmt::format("shape {}", tensor.shape),
                      fmt::format("{}", parameter.sizes().vec()));
  }
  const at::NoGradGuard no_grad;
  parameter.copy_(file.read(stored));
}

}  // namespace

LoadReport load_safetensors(const std::string& path, torch::nn::Module& model) {
  const Checkpoint checkpoint(path);
  std::map<std::string, std::string> names = stored_names(checkpoint);
  LoadReport report;
  for (auto& item : model.named_parameters()) {
    const auto found = names.find(item.key());
    if (found != names.end()) {
      copy(*checkpoint.tensors().at(found->second), found->second, item.value());
      names.erase(found);
    } else if (is_lora_factor(item.key())) {
      continue;  // trained beside a checkpoint, not stored in it
    } else if (may_be_missing(item.key())) {
      report.initialised.push_back(item.key());
    } else {
      throw ConfigError(checkpoint.path(), item.key(), "no such tensor", "this tensor");
    }
  }
  for (const auto& [parameter, stored] : names) {
    if (!may_be_unused(parameter)) {
      throw ConfigError(checkpoint.tensors().at(stored)->path(), stored, "an unexpected tensor",
                        "only what the model has");
    }
    report.unused.push_back(stored);
  }
  return report;
}

}  // namespace gradsync::models
