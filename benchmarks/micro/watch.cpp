// What `gradsync watch` costs a job: for each event that its recorder keeps, and for each operation
// of torch that its callback sees, kept or let through.
//
// The library is the one that jobs get: built for this torch on first use, which takes 20 s, kept
// as gradsync watch keeps it, and loaded here in the middle. It cannot be taken out again, so that
// "alone" comes before "watched", and their difference is the callback. As many events are recorded
// as fit into a process's file, with five repetitions: what finds no room costs less.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/base/program_files.h"
#include "harness/comm/process_groups.h"
#include "harness/watch/inject/job_torch.h"
#include "harness/watch/inject/preload/recorder.h"
#include "harness/watch/inject/preload_library.h"

namespace gradsync::micro {
namespace {

constexpr int kEvents = 40'000;

struct TemporaryFolder {
  TemporaryFolder() { is_made = ::mkdtemp(path.data()) != nullptr; }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path = (std::filesystem::temp_directory_path() / "gradsync_micro_XXXXXX").string();
  bool is_made = false;
};

void recorder_event(benchmark::State& state) {
  TemporaryFolder folder;
  watch::Recorder recorder;
  recorder.open(folder.path.c_str(), "");
  for (auto _ : state) {
    recorder.end(recorder.begin({.name = "all_reduce", .detail = "default_pg"}));
  }
}
BENCHMARK(recorder_event)->Iterations(kEvents);

// Whether the watcher is in this process.
bool is_watched = false;

// Loads it as preload/loader.cpp does. Returns why it cannot be; "" where it is.
std::string load_watcher() {
  static const TemporaryFolder folder;
  if (!folder.is_made) return "no temporary folder";
  ::setenv("GRADSYNC_WATCH_DIR", folder.path.c_str(), 1);
  try {
    const std::string cache = watch::preload_cache();
    const watch::PreloadBuild build(watch::examine_torch(GRADSYNC_TORCH), data_folder(),
                                    cache.empty() ? folder.path : cache);
    const auto known = build.find();
    const watch::PreloadLibrary library = known ? *known : build.build();
    is_watched =
        ::dlopen(library.watcher.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) != nullptr;
    return is_watched ? "" : ::dlerror();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Repeats `operation` in a process that is watched, or that never was so far.
template <typename Operation>
void repeat(benchmark::State& state, bool watched, Operation operation) {
  if (watched) {
    static const std::string why_not = load_watcher();
    if (!why_not.empty()) state.SkipWithError(why_not.c_str());
  } else if (is_watched) {
    state.SkipWithError("the watcher is loaded already: \"alone\" must come before \"watched\"");
  }
  for (auto _ : state) operation();
}

// As the optimizers of torch's Python open it: recorded.
void optimizer_range(benchmark::State& state, bool watched) {
  repeat(state, watched, [] { RECORD_USER_SCOPE("Optimizer.step#AdamW.step"); });
}

// Through c10d's dispatcher to a backend that does nothing: recorded.
void collective(benchmark::State& state, bool watched) {
  const auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 1);
  constexpr auto kCustom = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setBackend(c10::DeviceType::CPU, kCustom, comm::make_fake_backend(0, 1));
  group->setDefaultBackend(kCustom);
  group->setGroupName("gradsync/micro");
  std::vector<at::Tensor> tensors{at::ones({1})};
  repeat(state, watched, [&] { group->allreduce(tensors)->wait(); });
}

// One of the many that are let through.
void operation(benchmark::State& state, bool watched) {
  at::Tensor tensor = at::ones({1});
  repeat(state, watched, [&] { tensor.add_(1); });
}

BENCHMARK_CAPTURE(optimizer_range, alone, false)->Iterations(kEvents);
BENCHMARK_CAPTURE(collective, alone, false)->Iterations(kEvents);
BENCHMARK_CAPTURE(operation, alone, false);
BENCHMARK_CAPTURE(optimizer_range, watched, true)->Iterations(kEvents);
BENCHMARK_CAPTURE(collective, watched, true)->Iterations(kEvents);
BENCHMARK_CAPTURE(operation, watched, true);

}  // namespace
}  // namespace gradsync::micro

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
