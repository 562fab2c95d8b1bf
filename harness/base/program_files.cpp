#include "harness/base/program_files.h"

#include <fmt/format.h>

#include <cstdlib>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"

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

}  // namespace gradsync
