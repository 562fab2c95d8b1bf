#include "harness/base/named_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/errors.h"

namespace gradsync {

namespace fs = std::filesystem;

std::vector<std::string> list_json_files(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(directory, unreadable)) {
    const fs::path& path = entry.path();
    const bool is_schema = path.stem().extension() == ".schema";
    if (path.extension() == ".json" && !is_schema) names.push_back(path.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_json_file(const std::string& kind, const std::string& name,
                           const std::string& directory) {
  const auto names = list_json_files(directory);
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return (fs::path(directory) / (name + ".json")).string();
  }
  std::error_code error;
  if (fs::is_regular_file(name, error)) return name;
  throw ConfigError(fmt::format("{} '{}': no such {} or file, expected one of {}, or a file", kind,
                                name, kind, fmt::join(names, ", ")));
}

}  // namespace gradsync
