// A file with what a topology does not say about links and hosts, and how sure all that is.
//
//   {"schema": "gradsync.links/1", "about": "...", "source": "where these numbers come from",
//    "latency_s": 20e-6, "collective_s": 1e-4, "per_byte_s": 1e-10, "copy_per_byte_s": 2e-10,
//    "micro_batch_s": 1e-3, "algorithm": "ring",
//    "doubt": {"compute": 0.01, "rate": 0.02, "host": 0.3}}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/predict/prediction.h"
#include "harness/predict/setting.h"

namespace gradsync::predict {

struct LinkFile {
  std::string about;
  std::string source;  // "": not given, so the numbers are assumed
  LinkConstants constants;
  double rank_spread = 0;
  Doubt doubt{.compute = 0.02, .rate = 0.03, .host = 0.5, .pause = 0.15};
};

nlohmann::json to_json(const LinkFile& file);

// Returns the file; for "" the values that are assumed where none is given.
// Errors: ConfigError with file, field, got and expected.
LinkFile read_link_file(const std::string& path);

}  // namespace gradsync::predict
