#include "harness/base/program_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/nearest.h"

namespace gradsync {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults = "results/runs/";

// What tells such a folder from any other.
bool holds_the_files(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "benchmarks/plans", ignored);
}

fs::path installed_data() {
  return this_program().parent_path().parent_path() / "data";
}

}  // namespace

fs::path this_program() {
  return fs::read_symlink("/proc/self/exe");
}

fs::path beside_this_program(const std::string& name) {
  return this_program().parent_path() / name;
}

bool is_installed() {
  return holds_the_files(installed_data());
}

std::string data_folder() {
  const char* named = std::getenv("GRADSYNC_DATA");
  if (named != nullptr && *named != '\0') {
    if (holds_the_files(named)) return named;
    throw ConfigError(fmt::format(
        "GRADSYNC_DATA: got {}, expected a folder with benchmarks/plans in it, as a checkout is",
        named));
  }
  return is_installed() ? installed_data().string() : build_info().source_dir;
}

std::string data_file(const std::string& path) {
  return data_folder() + "/" + path;
}

std::string default_result_folder(const std::string& name) {
  if (is_installed()) return kResults + name;
  return fs::proximate(fs::path(build_info().source_dir) / kResults / name).string();
}

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
  throw ConfigError(fmt::format("{} '{}': no such {} or file, expected a file, or {}", kind, name,
                                kind, one_of_names(name, names)));
}

std::vector<std::string> files_with(const std::string& directory, std::string_view prefix,
                                    std::string_view suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace gradsync
