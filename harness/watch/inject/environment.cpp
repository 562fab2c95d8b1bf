#include "harness/watch/inject/environment.h"

#include <cstdlib>
#include <filesystem>

#include "harness/base/program_files.h"
#include "harness/launch/tcp.h"

namespace gradsync::watch {
namespace {

std::string before_variable(const std::string& first, const char* name) {
  const char* others = std::getenv(name);
  return others == nullptr || *others == '\0' ? first : first + ":" + others;
}

// LD_PRELOAD is divided at spaces and colons: a path with such gets another name in `folder`.
std::string preloadable(const std::string& path, const std::string& folder) {
  if (path.find_first_of(" :") == std::string::npos) return path;
  const std::filesystem::path link = std::filesystem::path(folder) / "loader.so";
  std::filesystem::create_symlink(path, link);
  return link.string();
}

}  // namespace

std::string torch_library(const JobTorch& torch) {
  return torch.folder + "/lib/libtorch_cpu.so";
}

std::string hook_directory() {
  return data_file("harness/watch/inject/hook");
}

EnvironmentChanges watching(const JobTorch& torch, const PreloadLibrary& library,
                            const std::string& folder) {
  return {{kFolderVariable, folder},
          {"GRADSYNC_WATCH_LIBRARY", library.watcher},
          {"GRADSYNC_WATCH_TORCH", torch_library(torch)},
          {"GRADSYNC_WATCH_TORCH_VERSION", torch.version},
          {"LD_PRELOAD", before_variable(preloadable(library.loader, folder), "LD_PRELOAD")},
          {"PYTHONPATH", before_variable(hook_directory(), "PYTHONPATH")}};
}

EnvironmentChanges own_port() {
  const std::string port = std::to_string(launch::bound_port(launch::listen_on(0).get()));
  return {{"MASTER_PORT", port}, {"PET_MASTER_PORT", port}};
}

}  // namespace gradsync::watch
