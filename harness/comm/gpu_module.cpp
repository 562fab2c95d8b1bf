#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "harness/base/errors.h"
#include "harness/comm/gpu.h"

namespace gradsync::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libgradsync_cuda.so";
constexpr const char* kEntry = "gradsync_gpu_module";

GpuModule& load() {
  const std::string path = find_gpu_module();
  if (path.empty()) {
    throw EnvironmentError(
        fmt::format("this build has no CUDA: there is no {} beside the program", kModule),
        "build where nvcc, NCCL's header and a torch with CUDA are found, or use "
        "--device cpu --backend gloo");
  }
  // Its libraries stay for good: torch cannot unlearn a device.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw EnvironmentError(fmt::format("CUDA cannot be loaded: {}", ::dlerror()),
                           "install all of torch's CUDA libraries, as harness/setup does where it "
                           "finds a GPU, or use --device cpu --backend gloo");
  }
  using Entry = GpuModule* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, kEntry));
  if (entry == nullptr) {
    throw EnvironmentError(fmt::format("{} is of another build: it has no {}", path, kEntry),
                           "build gradsync again");
  }
  return *entry();
}

}  // namespace

std::string find_gpu_module() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / kModule, folder.parent_path() / kModule}) {
    if (fs::exists(candidate, error)) return candidate.string();
  }
  return "";
}

GpuModule& load_gpu_module() {
  static GpuModule& module = load();
  return module;
}

}  // namespace gradsync::comm
