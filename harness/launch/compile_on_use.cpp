#include "harness/launch/compile_on_use.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include "harness/base/errors.h"
#include "harness/launch/namespaces.h"
#include "harness/launch/program_output.h"

namespace gradsync::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheRemedy = "set XDG_CACHE_HOME to a folder that can be written";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string content_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw EnvironmentError(path + " is missing",
                           "restore the checkout of gradsync, or install it again");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Takes a file and, in turn, what it includes of this tree.
void add_source(const std::string& source_dir, const std::string& path,
                std::map<std::string, std::string>& taken) {
  if (taken.contains(path)) return;
  const std::string& text = taken[path] = content_of_file(source_dir + "/" + path);
  static const std::regex include("#include \"(harness/[^\"]+)\"");
  for (std::sregex_iterator found(text.begin(), text.end(), include), end; found != end; ++found) {
    add_source(source_dir, (*found)[1], taken);
  }
}

std::string first_error_in(const std::string& text) {
  std::istringstream lines(text);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (first.empty()) first = line;
    if (line.find("error") != std::string::npos) return line;
  }
  return first;
}

}  // namespace

std::string find_compiler(const std::string& what) {
  for (const std::string& name :
       {variable("CXX"), std::string("c++"), std::string("g++"), std::string("clang++")}) {
    if (name.find('/') != std::string::npos && ::access(name.c_str(), X_OK) == 0) return name;
    if (!name.empty() && !find_program(name).empty()) return find_program(name);
  }
  throw EnvironmentError(fmt::format("there is no C++ compiler to build {} with", what),
                         "install g++ or clang++, or set CXX");
}

std::string build_cache(const std::string& kind) {
  const std::string cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/gradsync/" + kind;
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/gradsync/" + kind;
}

std::string file_identity(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path;
  return fmt::format("{} {} {}", path, status.st_size, status.st_mtime);
}

std::string text_of_sources(const std::string& source_dir, const Words& paths) {
  std::map<std::string, std::string> taken;
  for (const std::string& path : paths) add_source(source_dir, path, taken);
  std::string all;
  for (const auto& [path, text] : taken) all += path + text;
  return all;
}

void compile(const Words& command, const std::string& what, const std::string& remedy) {
  constexpr double kBuildS = 900;
  const ProgramOutput output = output_of(command, kBuildS);
  if (output.status == 0) return;
  throw EnvironmentError(fmt::format("{} cannot be built: {}", what, first_error_in(output.text)),
                         remedy);
}

Build::Build(const std::string& cache, const std::string& name, std::string_view made_of)
    : folder_(fmt::format("{}/{}-{:016x}", cache, name, std::hash<std::string_view>{}(made_of))) {}

bool Build::has(const Words& files) const {
  return std::ranges::all_of(
      files, [this](const std::string& file) { return fs::exists(folder_ + "/" + file); });
}

void Build::make(const std::function<void(const std::string&)>& fill, const Words& files) const {
  const std::string temporary = fmt::format("{}.tmp-{}", folder_, ::getpid());
  std::error_code error;
  fs::create_directories(temporary, error);
  if (error) {
    throw EnvironmentError(fmt::format("{} cannot be made: {}", temporary, error.message()),
                           kCacheRemedy);
  }
  try {
    fill(temporary);
  } catch (const EnvironmentError&) {
    fs::remove_all(temporary, error);
    throw;
  }
  fs::rename(temporary, folder_, error);
  if (error) fs::remove_all(temporary, error);  // another program was faster, with the same result
  if (!has(files)) throw EnvironmentError(fmt::format("{} cannot be kept", folder_), kCacheRemedy);
}

}  // namespace gradsync::launch
