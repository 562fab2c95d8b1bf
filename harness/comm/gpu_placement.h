// Which rank uses which GPU, and what NCCL must be told about it. Pure; no torch, no CUDA.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradsync::comm {

// Returns the GPU, of `gpus` that the process sees, of the rank that is number `rank_on_host` on
// its host: round robin, so that ranks share GPUs only where there are more ranks than GPUs.
int gpu_of_rank(int rank_on_host, int gpus);

// How many ranks use how many GPUs, from the uuid of each rank's GPU.
struct GpuSharing {
  int ranks = 0;
  int gpus = 0;  // different ones

  bool shared() const { return gpus < ranks; }
  // "4 ranks share 1 GPU": why times say nothing; empty where none is shared.
  std::string reason() const;
};
GpuSharing gpu_sharing(const std::vector<std::string>& uuids);

struct NcclPlace {
  int rank = 0;
  int node = 0;
  std::string interface = "lo";  // through which this rank reaches the others; "": not known
  int nccl_version = 0;          // as NCCL_VERSION_CODE
  bool shared = false;           // some GPU is used by several ranks
};

// Returns the variables that NCCL and torch's backend for it are to find, in the order given; what
// the user has set stays as it is.
//   NCCL_SOCKET_IFNAME   the rank's own interface, by its exact name
//   NCCL_HOSTID          one per node, so that nodes that are namespaces of one machine talk
//   through
//                        their link; one per rank where GPUs are shared, which NCCL before 2.30
//                        takes for a mistake within a host
//   NCCL_MULTI_RANK_GPU_ENABLE   where GPUs are shared, from NCCL 2.30
//   TORCH_NCCL_*         a failed collective is aborted and reported instead of ending the process,
//                        at once and without a dump in a file
std::vector<std::pair<std::string, std::string>> nccl_environment(const NcclPlace& place);

// Returns what NCCL's log (NCCL_DEBUG=INFO) says the channels go through, each once, sorted:
// "NET/Socket, P2P/CUMEM". Empty where no channel was made.
std::string nccl_transports(const std::string& log);

// Returns a sentence where `what`, an error of NCCL, says that it found no network interface;
// nothing for any other error. `wanted`: NCCL_SOCKET_IFNAME, or empty; `interfaces`: what there is.
struct NcclObstacle {
  std::string what;
  std::string remedy;
};
std::optional<NcclObstacle> nccl_obstacle(const std::string& what, const std::string& wanted,
                                          const std::vector<std::string>& interfaces);

}  // namespace gradsync::comm
