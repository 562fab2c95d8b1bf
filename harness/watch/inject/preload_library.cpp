#include "harness/watch/inject/preload_library.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/launch/namespaces.h"
#include "harness/launch/program_output.h"
#include "harness/watch/inject/preload/fnv_1a.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoader = "libgradsync_loader.so";
constexpr const char* kWatcher = "libgradsync_watcher.so";
constexpr const char* kPreload = "harness/watch/inject/preload/";

// What goes into every process of a job, and what into those with torch.
constexpr std::array kLoaderSources = {
    "loader.cpp",          "nccl.cpp",    "nccl_calls.cpp", "cuda_graphs.cpp", "captured_calls.cpp",
    "next_definition.cpp", "recorder.cpp"};
constexpr std::array kWatcherSources = {
    "watcher.cpp", "c10d_operators.cpp",  "backward_runs.cpp",  "recorder.cpp",
    "hold.cpp",    "helping_threads.cpp", "tensor_account.cpp", "tensor_memory.cpp"};

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Words common_options() {
  return {"-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w"};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string find_compiler() {
  for (const std::string& name :
       {variable("CXX"), std::string("c++"), std::string("g++"), std::string("clang++")}) {
    if (name.find('/') != std::string::npos && ::access(name.c_str(), X_OK) == 0) return name;
    if (!name.empty() && !launch::find_program(name).empty()) return launch::find_program(name);
  }
  throw EnvironmentError("there is no C++ compiler to build the watcher for this torch with",
                         "install g++ or clang++, or set CXX");
}

std::string file_identity(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path;
  return fmt::format("{} {} {}", path, status.st_size, status.st_mtime);
}

std::string content_of(const std::string& path) {
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
  const std::string& text = taken[path] = content_of(source_dir + "/" + path);
  static const std::regex include("#include \"(harness/[^\"]+)\"");
  for (std::sregex_iterator found(text.begin(), text.end(), include), end; found != end; ++found) {
    add_source(source_dir, (*found)[1], taken);
  }
}

// Returns all that the libraries are made of; a change of any is another build.
std::string all_sources(const std::string& source_dir) {
  std::map<std::string, std::string> taken;
  for (const char* source : kLoaderSources)
    add_source(source_dir, std::string(kPreload) + source, taken);
  for (const char* source : kWatcherSources)
    add_source(source_dir, std::string(kPreload) + source, taken);
  std::string all;
  for (const auto& [path, text] : taken) all += path + text;
  return all;
}

template <std::size_t size>
Words in_preload(const std::string& source_dir, const std::array<const char*, size>& sources) {
  Words paths;
  for (const char* source : sources) paths.push_back(source_dir + "/" + kPreload + source);
  return paths;
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

void run(const Words& command) {
  constexpr double kBuildS = 900;
  const launch::ProgramOutput output = launch::output_of(command, kBuildS);
  if (output.status == 0) return;
  throw EnvironmentError(
      fmt::format("the watcher cannot be built: {}", first_error_in(output.text)),
      "the job can be run without gradsync watch; report the torch version");
}

}  // namespace

std::string shipped_as(const JobTorch& torch) {
  return fmt::format("libgradsync_watcher-{}{}.so", minor_of(torch),
                     torch.cxx11_abi ? "" : "-old_abi");
}

std::optional<PreloadLibrary> shipped_library(const JobTorch& torch) {
  const PreloadLibrary library{beside_this_program(kLoader),
                               beside_this_program(shipped_as(torch))};
  if (!fs::exists(library.loader) || !fs::exists(library.watcher)) return std::nullopt;
  return library;
}

std::string preload_cache() {
  const std::string cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/gradsync/watch";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/gradsync/watch";
}

PreloadBuild::PreloadBuild(JobTorch torch, std::string source_dir, const std::string& cache)
    : torch_(std::move(torch)), source_dir_(std::move(source_dir)), compiler_(find_compiler()) {
  std::string all = fmt::format("{} {} {} {} {}", torch_.version, torch_.cxx11_abi,
                                file_identity(torch_.folder + "/lib/libtorch_cpu.so"),
                                file_identity(compiler_), fmt::join(common_options(), " "));
  all += all_sources(source_dir_);
  folder_ = fmt::format("{}/torch-{}-{:016x}", cache, torch_.version, fnv_1a(all));
}

std::optional<PreloadLibrary> PreloadBuild::find() const {
  PreloadLibrary library{folder_ + "/" + kLoader, folder_ + "/" + kWatcher};
  if (!fs::exists(library.loader) || !fs::exists(library.watcher)) return std::nullopt;
  return library;
}

PreloadLibrary PreloadBuild::build() const {
  const std::string temporary = fmt::format("{}.tmp-{}", folder_, ::getpid());
  std::error_code error;
  fs::create_directories(temporary, error);
  if (error) {
    throw EnvironmentError(fmt::format("{} cannot be made: {}", temporary, error.message()),
                           "set XDG_CACHE_HOME to a folder that can be written");
  }
  try {
    compile(temporary);
  } catch (const EnvironmentError&) {
    fs::remove_all(temporary, error);
    throw;
  }
  fs::rename(temporary, folder_, error);
  if (error) fs::remove_all(temporary, error);  // another job was faster, with the same result
  if (auto library = find()) return *library;
  throw EnvironmentError(fmt::format("{} cannot be kept", folder_),
                         "set XDG_CACHE_HOME to a folder that can be written");
}

std::string compile_loader(const std::string& source_dir, const std::string& folder) {
  std::string loader = folder + "/" + kLoader;
  // Only what is used: it goes into processes that know nothing of C++.
  run(Words{find_compiler()} + common_options() +
      Words{"-fno-exceptions", "-fno-rtti", "-I" + source_dir} +
      in_preload(source_dir, kLoaderSources) + Words{"-o", loader, "-Wl,--as-needed", "-ldl"});
  return loader;
}

void PreloadBuild::compile(const std::string& folder) const {
  compile_loader(source_dir_, folder);
  run(Words{compiler_} + common_options() +
      Words{fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", torch_.cxx11_abi ? 1 : 0),
            "-DUSE_DISTRIBUTED",
            fmt::format("-DGRADSYNC_WATCH_TORCH_VERSION=\"{}\"", torch_.version),
            "-I" + source_dir_, "-isystem", torch_.folder + "/include", "-isystem",
            torch_.folder + "/include/torch/csrc/api/include"} +
      in_preload(source_dir_, kWatcherSources) +
      Words{"-o", folder + "/" + kWatcher,
            // Needed by name: torch's symbols are not global in a Python process. Its own needs
            // are its own affair.
            "-L" + torch_.folder + "/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10",
            "-Wl,--allow-shlib-undefined"});
}

}  // namespace gradsync::watch
