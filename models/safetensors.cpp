#include "models/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "harness/base/errors.h"
#include "models/safetensors_file.h"

namespace gradsync::models {
namespace {

// A task's own head: a checkpoint of the body alone lacks it.
bool is_head(const std::string& name) { return name.starts_with("classifier."); }

// The names under which checkpoints are known to store parameter `name`, best first.
std::vector<std::string> candidates(const std::string& name) {
  std::vector<std::string> names{name};
  if (name.starts_with("bert.")) names.push_back(name.substr(5));
  const auto older = [](std::string text, const std::string& suffix, const std::string& old) {
    if (text.find("LayerNorm") == std::string::npos || !text.ends_with(suffix)) return text;
    return text.substr(0, text.size() - suffix.size()) + old;
  };
  const std::vector<std::string> newer = names;
  for (const std::string& base : newer) {
    names.push_back(older(older(base, "weight", "gamma"), "bias", "beta"));
  }
  return names;
}

}  // namespace

LoadReport load_safetensors(const std::string& path, torch::nn::Module& model) {
  const SafetensorsFile file(path);
  const at::NoGradGuard no_grad;
  LoadReport report;
  std::set<std::string> used;
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    const StoredTensor* stored = nullptr;
    for (const std::string& candidate : candidates(name)) {
      const auto found = file.tensors().find(candidate);
      if (found == file.tensors().end()) continue;
      stored = &found->second;
      used.insert(candidate);
      break;
    }
    if (stored == nullptr) {
      if (!is_head(name)) throw ConfigError(path, name, "no such tensor", "this tensor");
      report.initialised.push_back(name);
      continue;
    }
    if (item.value().sizes() != at::IntArrayRef(stored->shape)) {
      throw ConfigError(path, name + ".shape", fmt::format("{}", stored->shape),
                        fmt::format("{}", item.value().sizes().vec()));
    }
    item.value().copy_(file.read(*stored));
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (!used.contains(name)) report.unused.push_back(name);
  }
  return report;
}

}  // namespace gradsync::models
