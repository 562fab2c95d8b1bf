#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/errors.h"
#include "harness/plan/plan.h"

namespace gradsync::plan {

namespace fs = std::filesystem;

std::vector<std::string> list_plans(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path& path = entry.path();
    const bool is_schema = path.stem().extension() == ".schema";
    if (path.extension() == ".json" && !is_schema) names.push_back(path.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string resolve_plan(const std::string& name, const std::string& directory) {
  const auto names = list_plans(directory);
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return (fs::path(directory) / (name + ".json")).string();
  }
  std::error_code error;
  if (fs::is_regular_file(name, error)) return name;
  throw ConfigError(fmt::format("plan '{}': no such plan or file, expected one of {}, or a file",
                                name, fmt::join(names, ", ")));
}

}  // namespace gradsync::plan
