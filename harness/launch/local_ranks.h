// The ranks of a launch that are this process's children: started, watched, reaped. All of them, or
// those of one node, or one: a task of an outside launcher hosts only its own.
//
// Each rank is a direct child, in its endpoint's network, pinned, with the environment of torchrun
// (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR), a control channel (a
// socket pair carrying one JSON object per line, both ways) and a RankProgress. A rank dies with
// the launcher (PR_SET_PDEATHSIG) whatever it is doing; to the kernel that is the thread which
// started it, so this object is made by a thread that outlives it, best the main one. A rank has a
// process group of its own: Ctrl-C reaches only the launcher. Its output goes to the launcher's
// standard error.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/fabric.h"
#include "harness/launch/rank_group.h"

namespace gradsync::launch {

struct SpawnOptions {
  std::vector<std::string> command;  // argv of a rank; command[0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment;  // beside the launcher's own
  bool pin = true;           // one processor per rank, round robin in the order of cores.h
  int threads_per_rank = 1;  // OMP_NUM_THREADS, MKL_NUM_THREADS
};

// Ranks first ... first + count - 1 of a topology.
struct RankRange {
  int first = 0;
  int count = 0;
};

class LocalRanks : public RankGroup {
 public:
  // Starts every rank, or those of `range`. Errors: EnvironmentError where a process cannot be
  // started.
  LocalRanks(const Topology& topology, const Fabric& fabric, const SpawnOptions& options);
  LocalRanks(const Topology& topology, const Fabric& fabric, const SpawnOptions& options,
             RankRange range);
  ~LocalRanks() override;

  std::optional<RankEvent> next_event(double timeout_s) override;
  // The same, but returns early, with nothing, when `wake_fd` can be read.
  std::optional<RankEvent> next_event(double timeout_s, int wake_fd);

  void send(int rank, const nlohmann::json& message) override;
  const RankProgress& progress(int rank) const override;
  char process_state(int rank) const override;
  bool running(int rank) const override;
  const Topology& topology() const override;
  int size() const override;
  pid_t pid(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradsync::launch
