// Ranks on GPUs, as forked processes: each loads CUDA itself, since CUDA does not survive a fork.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "harness/comm/process_groups.h"
#include "harness/launch/gpus.h"
#include "harness/run/rank_gpu.h"
#include "tests/harness/comm/fork_ranks.h"

namespace gradsync::test {

// Why no GPU test can run here; empty: there is one. Asks the driver, not CUDA.
inline std::string without_gpu() {
  const auto gpus = launch::probe_gpus();
  if (!gpus) return "no GPU here: " + gpus.why_not();
  return gpus->empty() ? "no GPU here: the driver lists none" : "";
}

struct GpuRank {
  int rank;
  int world_size;
  comm::Gpu& gpu;
  comm::Ledger& ledger;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  run::RankGpu& rank_gpu;
};

// The life of one rank's process. Returns whether every expectation held.
inline bool run_gpu_rank(int rank, int world_size, const std::string& backend,
                         const std::string& store_file, const std::function<void(GpuRank&)>& body) {
  launch::LaunchSpec spec;
  spec.device = "cuda";
  spec.backend = backend;
  spec.ranks_per_host = world_size;
  spec.timeout_s = 60;
  launch::RankPlace place;
  place.rank = rank;
  place.world_size = world_size;
  try {
    run::RankGpu rank_gpu(spec, place);
    const auto store = c10::make_intrusive<c10d::FileStore>(store_file, world_size);
    rank_gpu.meet(*store);
    comm::Ledger ledger(steady_clock(), nullptr, &rank_gpu.gpu());
    comm::GroupOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.backend = backend;
    options.device = at::kCUDA;
    options.gpu = &rank_gpu.gpu();
    options.address = place.address;
    GpuRank self{rank,
                 world_size,
                 rank_gpu.gpu(),
                 ledger,
                 comm::make_process_group(store, options, ledger),
                 rank_gpu};
    body(self);
    comm::barrier(*self.group);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d threw: %.2000s\n", rank, error.what());
    return false;
  }
  return !::testing::Test::HasFailure();
}

// Runs `body` on `world_size` ranks, which share GPUs where there are fewer, and fails where one
// fails in any of them.
inline void run_gpu_ranks(int world_size, const std::string& backend,
                          const std::function<void(GpuRank&)>& body) {
  const auto codes = fork_ranks(world_size, [&](int rank, const std::string& store_file) {
    return run_gpu_rank(rank, world_size, backend, store_file, body) ? 0 : 1;
  });
  for (const int code : codes) EXPECT_EQ(code, 0) << "a rank failed";
}

}  // namespace gradsync::test
