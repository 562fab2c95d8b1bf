// Asks a Python script what another implementation answers, and compares tensors with it.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/json_fields.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::test {

constexpr int kOracleIsMissing = 77;  // the script's exit status where it cannot import its oracle

// What tests/FOLDER/SCRIPT wrote when it was called with a new folder and `arguments`.
struct Answers {
  TemporaryFolder folder;
  int status = 0;
  std::string log;
  nlohmann::json values;  // answers.json, where status is 0

  Answers(const std::string& script, const std::string& arguments,
          const std::string& script_folder = "models") {
    const char* chosen = std::getenv("GRADSYNC_PYTHON");
    const std::string command =
        fmt::format("'{}' -B '{}/tests/{}/{}' '{}' {} >'{}' 2>&1",
                    chosen != nullptr ? chosen : path_of("python"), path_of("source"),
                    script_folder, script, folder.file(""), arguments, folder.file("log"));
    const int ended = std::system(command.c_str());
    status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    std::stringstream text;
    text << std::ifstream(folder.file("log")).rdbuf();
    log = text.str();
    if (status == 0) values = read_json_file(folder.file("answers.json"));
  }
};

// Rows of integers as an int64 matrix.
inline at::Tensor integers(const nlohmann::json& rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows.get<std::vector<std::vector<std::int64_t>>>()) {
    tensors.push_back(at::tensor(row, at::kLong));
  }
  return at::stack(tensors);
}

inline double largest_difference(const at::Tensor& ours, const at::Tensor& theirs) {
  return (ours - theirs).abs().max().item<double>();
}

}  // namespace gradsync::test
