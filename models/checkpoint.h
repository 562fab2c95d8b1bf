// A checkpoint as Hugging Face stores it: one safetensors file, or several with an index that says
// which of them holds which tensor.   No torch.
//
//   FOLDER/model.safetensors
//
//   FOLDER/model-00001-of-00002.safetensors
//   FOLDER/model-00002-of-00002.safetensors
//   FOLDER/model.safetensors.index.json    {"metadata": {...}, "weight_map":
//                                           {"lm_head.weight": "model-00002-of-00002.safetensors",
//                                            ...}}
//
// Source: transformers' save_pretrained and from_pretrained.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/safetensors_file.h"

namespace gradsync::models {

// Tensor -> the name of its file, in the folder of the index.
using WeightMap = std::map<std::string, std::string>;

// Errors: ConfigError where `index` cannot be read, is no JSON, or its weight_map is none: not an
// object, empty, or with something else than the plain name of a file.
WeightMap read_weight_map(const std::string& index);

class Checkpoint {
 public:
  // `path`: a safetensors file, an index (its name ends in ".json"), or a folder with
  // model.safetensors, or else model.safetensors.index.json.
  // Errors: ConfigError for a folder without either, a bad file or index, and where the two do not
  // agree: a file that is not there, a tensor in no file, in another one than the index says, in
  // two, or in one and not in the index.
  explicit Checkpoint(const std::string& path);

  // The file that holds each tensor, by the tensor's name.
  const std::map<std::string, const SafetensorsFile*>& tensors() const { return tensors_; }

  // The file or the index.
  const std::string& path() const { return path_; }

 private:
  void add_shards(const WeightMap& weight_map);
  void add(const std::string& file);
  void check_agreement(const WeightMap& weight_map) const;

  std::string path_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> tensors_;
};

}  // namespace gradsync::models
