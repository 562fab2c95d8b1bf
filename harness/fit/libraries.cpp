#include "harness/fit/libraries.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/launch/compile_on_use.h"
#include "harness/paper/standins.h"

namespace gradsync::fit {
namespace {

using launch::Words;

constexpr const char* kPurpose = "what records a job's allocations";
constexpr const char* kRecorder = "libgradsync_allocations.so";
constexpr const char* kReplay = "replay";
const Words kRecorderSources = {"harness/fit/recorder/allocation_recorder.cpp",
                                "harness/fit/recorder/record_file.cpp",
                                "harness/paper/standins/python_frames.cpp"};
const Words kReplaySources = {"harness/fit/recorder/replay.cpp"};

void compile(const watch::JobTorch& torch, const Words& kind, const Words& sources,
             const std::string& result) {
  const std::string tree = data_folder();
  Words command{launch::find_compiler(kPurpose),
                "-std=c++20",
                "-O2",
                "-DNDEBUG",
                "-w",
                "-fvisibility=hidden",
                fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", torch.cxx11_abi ? 1 : 0),
                "-I" + tree,
                "-isystem",
                torch.folder + "/include",
                "-isystem",
                paper::cuda_headers(torch.folder)};
  command.insert(command.end(), kind.begin(), kind.end());
  for (const std::string& source : sources) command.push_back(fmt::format("{}/{}", tree, source));
  // c10_cuda asks for CUDA's runtime, which is preloaded.
  command.insert(command.end(),
                 {"-o", result, "-L" + torch.folder + "/lib", "-Wl,-rpath," + torch.folder + "/lib",
                  "-lc10_cuda", "-lc10", "-ldl", "-Wl,--allow-shlib-undefined"});
  launch::compile(command, kPurpose, "report the version of torch and of its CUDA");
}

}  // namespace

Libraries build_libraries(const watch::JobTorch& torch) {
  const std::string cache = launch::build_cache("fit");
  if (cache.empty()) {
    throw EnvironmentError("there is no folder to keep what records a job's allocations in",
                           "set XDG_CACHE_HOME");
  }
  Words sources = kRecorderSources;
  sources.insert(sources.end(), kReplaySources.begin(), kReplaySources.end());
  const launch::Build build(
      cache, "torch-" + torch.version,
      fmt::format("{} {} {}", launch::file_identity(torch.folder + "/lib/libc10_cuda.so"),
                  launch::file_identity(launch::find_compiler(kPurpose)),
                  launch::text_of_sources(data_folder(), sources)));
  if (!build.has({kRecorder, kReplay})) {
    log::info(fmt::format("building what records allocations for torch {}, once: about 30 s ...",
                          torch.version));
    build.make(
        [&](const std::string& folder) {
          compile(torch, {"-fPIC", "-shared"}, kRecorderSources, folder + "/" + kRecorder);
          compile(torch, {}, kReplaySources, folder + "/" + kReplay);
        },
        {kRecorder, kReplay});
  }
  return {build.folder() + "/" + kRecorder, build.folder() + "/" + kReplay};
}

}  // namespace gradsync::fit
