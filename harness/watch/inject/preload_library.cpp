#include "harness/watch/inject/preload_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>

#include "harness/base/program_files.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;
using launch::Words;

constexpr const char* kLoader = "libgradsync_loader.so";
constexpr const char* kWatcher = "libgradsync_watcher.so";
constexpr const char* kPurpose = "the watcher for this torch";
constexpr const char* kPreload = "harness/watch/inject/preload/";

// What goes into every process of a job, and what into those with torch.
constexpr std::array kLoaderSources = {
    "loader.cpp",          "nccl.cpp",    "nccl_calls.cpp", "cuda_graphs.cpp", "captured_calls.cpp",
    "next_definition.cpp", "recorder.cpp"};
constexpr std::array kWatcherSources = {
    "watcher.cpp",       "c10d_operators.cpp",  "backward_runs.cpp",  "recorder.cpp",
    "hold.cpp",          "helping_threads.cpp", "tensor_account.cpp", "tensor_memory.cpp",
    "operator_work.cpp", "operator_flops.cpp"};

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Words common_options() {
  return {"-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w"};
}

template <std::size_t size>
Words in_preload(const std::string& folder, const std::array<const char*, size>& sources) {
  Words paths;
  for (const char* source : sources) paths.push_back(folder + kPreload + source);
  return paths;
}

// Returns all that the libraries are made of; a change of any is another build.
std::string all_sources(const std::string& source_dir) {
  return launch::text_of_sources(source_dir,
                                 in_preload("", kLoaderSources) + in_preload("", kWatcherSources));
}

void compile_library(const Words& command) {
  launch::compile(command, "the watcher",
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
  return launch::build_cache("watch");
}

PreloadBuild::PreloadBuild(JobTorch torch, std::string source_dir, const std::string& cache)
    : torch_(std::move(torch)),
      source_dir_(std::move(source_dir)),
      compiler_(launch::find_compiler(kPurpose)),
      build_(cache, "torch-" + torch_.version,
             fmt::format("{} {} {} {} {}{}", torch_.version, torch_.cxx11_abi,
                         launch::file_identity(torch_.folder + "/lib/libtorch_cpu.so"),
                         launch::file_identity(compiler_), fmt::join(common_options(), " "),
                         all_sources(source_dir_))) {}

std::optional<PreloadLibrary> PreloadBuild::find() const {
  if (!build_.has({kLoader, kWatcher})) return std::nullopt;
  return PreloadLibrary{build_.folder() + "/" + kLoader, build_.folder() + "/" + kWatcher};
}

PreloadLibrary PreloadBuild::build() const {
  build_.make([this](const std::string& folder) { compile(folder); }, {kLoader, kWatcher});
  return *find();
}

std::string compile_loader(const std::string& source_dir, const std::string& folder) {
  std::string loader = folder + "/" + kLoader;
  // Only what is used: it goes into processes that know nothing of C++.
  compile_library(Words{launch::find_compiler(kPurpose)} + common_options() +
                  Words{"-fno-exceptions", "-fno-rtti", "-I" + source_dir} +
                  in_preload(source_dir + "/", kLoaderSources) +
                  Words{"-o", loader, "-Wl,--as-needed", "-ldl"});
  return loader;
}

void PreloadBuild::compile(const std::string& folder) const {
  compile_loader(source_dir_, folder);
  compile_library(Words{compiler_} + common_options() +
                  Words{fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", torch_.cxx11_abi ? 1 : 0),
                        "-DUSE_DISTRIBUTED",
                        fmt::format("-DGRADSYNC_WATCH_TORCH_VERSION=\"{}\"", torch_.version),
                        "-I" + source_dir_, "-isystem", torch_.folder + "/include", "-isystem",
                        torch_.folder + "/include/torch/csrc/api/include"} +
                  in_preload(source_dir_ + "/", kWatcherSources) +
                  Words{"-o", folder + "/" + kWatcher,
                        // Needed by name: torch's symbols are not global in a Python process. Its
                        // own needs are its own affair.
                        "-L" + torch_.folder + "/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10",
                        "-Wl,--allow-shlib-undefined"});
}

}  // namespace gradsync::watch
