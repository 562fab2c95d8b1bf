#include "models/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWholeFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// In a folder the file that from_pretrained would take.
std::string file_in(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {kWholeFile, kIndexFile}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, ignored)) return file;
  }
  throw ConfigError(path, kWholeFile, "no such file", fmt::format("it, or {}", kIndexFile));
}

bool is_plain_name(const std::string& name) {
  constexpr std::string_view kInNoName("/\0", 2);
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(kInNoName) == std::string::npos;
}

std::string quoted(const std::string& text) {
  return json(text).dump();
}

std::string name_of(const SafetensorsFile& file) {
  return fs::path(file.path()).filename();
}

std::string field_of(const std::string& tensor) {
  return "weight_map." + tensor;
}

}  // namespace

WeightMap read_weight_map(const std::string& index) {
  const json content = read_json_file(index);
  JsonFields fields(content, index);
  const json& listed = fields.raw("weight_map", true);
  if (!listed.is_object() || listed.empty()) {
    fields.fail("weight_map", "an object: the name of a file for each tensor");
  }
  JsonFields tensors(listed, index, "weight_map.");
  WeightMap weight_map;
  for (const auto& [tensor, value] : listed.items()) {
    const std::string file = tensors.string(tensor);
    if (!is_plain_name(file)) tensors.fail(tensor, "the name of a file beside the index");
    weight_map[tensor] = file;
  }
  return weight_map;
}

Checkpoint::Checkpoint(const std::string& path) : path_(file_in(path)) {
  if (!path_.ends_with(".json")) {
    add(path_);
    return;
  }
  const WeightMap weight_map = read_weight_map(path_);
  add_shards(weight_map);
  check_agreement(weight_map);
}

void Checkpoint::add_shards(const WeightMap& weight_map) {
  const fs::path folder = fs::path(path_).parent_path();
  std::set<std::string> added;
  std::error_code ignored;
  for (const auto& [tensor, name] : weight_map) {
    if (!added.insert(name).second) continue;
    if (!fs::exists(folder / name, ignored)) {
      throw ConfigError(path_, field_of(tensor), quoted(name),
                        "a file beside the index: there is none of this name");
    }
    add(folder / name);
  }
}

void Checkpoint::add(const std::string& path) {
  files_.push_back(std::make_unique<const SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const auto& [name, tensor] : file.tensors()) {
    const auto [first, is_new] = tensors_.emplace(name, &file);
    if (!is_new) {
      throw ConfigError(file.path(), name, "a second tensor of this name",
                        fmt::format("only that of {}", name_of(*first->second)));
    }
  }
}

void Checkpoint::check_agreement(const WeightMap& weight_map) const {
  for (const auto& [tensor, name] : weight_map) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) {
      throw ConfigError(path_, field_of(tensor), quoted(name),
                        "a file with this tensor: none of those listed has it");
    }
    if (name_of(*found->second) != name) {
      throw ConfigError(path_, field_of(tensor), quoted(name),
                        fmt::format("{}, which has it", quoted(name_of(*found->second))));
    }
  }
  for (const auto& [tensor, file] : tensors_) {
    if (weight_map.contains(tensor)) continue;
    throw ConfigError(file->path(), tensor, "a tensor that the index does not list",
                      fmt::format("only those of {}", path_));
  }
}

}  // namespace gradsync::models
