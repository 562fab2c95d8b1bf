// What the rank program says of itself, to a launcher that has no torch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/suite.h"

namespace gradsync::coordinate {

struct RankAbout {
  std::string commit;                            // as BuildInfo has it
  std::string torch;                             // version
  std::string torch_folder;                      // with the lib/ that this rank program uses
  std::string blas;                              // "mkl", "lapack" or "reference"
  bool has_gpu_module = false;                   // whether this build can compute on GPUs
  std::vector<models::ModelDescription> models;  // those of the suite, then those linked in
};

void to_json(nlohmann::json& out, const RankAbout& about);

// Errors: ConfigError naming `file` where it is not what to_json writes.
RankAbout rank_about_from_json(const nlohmann::json& in, const std::string& file);

}  // namespace gradsync::coordinate
