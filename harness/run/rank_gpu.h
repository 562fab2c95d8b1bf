// The GPU of a rank: which one it takes, which ranks share it, and NCCL's variables.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/comm/gpu.h"
#include "harness/comm/gpu_placement.h"
#include "harness/launch/control_channel.h"
#include "harness/launch/launch_spec.h"
#include "harness/launch/unique_fd.h"
#include "harness/results/model_info.h"

namespace gradsync::run {

class RankGpu {
 public:
  // Loads CUDA and takes this rank's GPU. Call before anything else of torch is used.
  // Errors: EnvironmentError where there is no GPU for it.
  RankGpu(const launch::LaunchSpec& spec, const launch::RankPlace& place);

  // Learns which ranks share a GPU and sets NCCL's variables. Collective; before NCCL is used.
  // Errors: c10::Error where a rank does not answer in the store's time; EnvironmentError where
  // this NCCL cannot work on these GPUs.
  void meet(c10d::Store& store);

  comm::Gpu& gpu() { return *gpu_; }

  // Returns why a trial says nothing about its topology: NCCL went past the links that were made
  // for it; "" where it did not.
  std::string detour() const;

  // Adds the GPU, NCCL's transports and, where GPUs are shared, that times mean nothing.
  void add_to(results::ModelInfo& info) const;

 private:
  void prepare_nccl(bool has_instances);
  void catch_nccl_log();
  bool is_linked_within_nodes() const;

  const launch::LaunchSpec& spec_;
  const launch::RankPlace& place_;
  std::unique_ptr<comm::Gpu> gpu_;
  comm::GpuSharing sharing_;
  launch::UniqueFd nccl_log_;  // a file in memory; closed: the user keeps NCCL's log
};

// Returns `what`, turned into advice if it is an error of NCCL that the user can fix.
std::optional<comm::NcclObstacle> nccl_obstacle_here(const std::string& what);

}  // namespace gradsync::run
