// Decides which rank uses which GPU, and which of NCCL's variables must be set for it. Pure; no
// torch, no CUDA.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradsync::comm {

// Returns the GPU, of `gpus` that the process sees, of the rank that is number `rank_on_host` on
// its host: round robin, so that ranks share GPUs only where there are more ranks than GPUs.
int gpu_of_rank(int rank_on_host, int gpus);

// Where a rank's GPU is: CUDA's uuid, of an instance where it is divided (MIG), and what tells the
// GPU itself from all others. A text between ranks.
struct GpuPlace {
  std::string uuid;    // "GPU-5d3..."
  std::string parent;  // host and bus, "2 0000:41:00.0"

  std::string text() const { return uuid + " " + parent; }
};
GpuPlace gpu_place(const std::string& text);

// How many ranks use how many GPUs, or instances of GPUs.
struct GpuSharing {
  int ranks = 0;
  int gpus = 0;  // different ones

  bool shared() const { return gpus < ranks; }
  // "4 ranks share 1 GPU": why times say nothing; empty where none is shared.
  std::string reason() const;
};
GpuSharing gpu_sharing(const std::vector<GpuPlace>& gpus);

// Returns whether ranks have instances of one GPU (MIG), which NCCL takes for that GPU.
bool are_instances(const std::vector<GpuPlace>& gpus);

// The first NCCL that several ranks can share a GPU with, whole or by instances, as
// NCCL_VERSION_CODE.
inline constexpr int kFirstWithSharedGpus = 23000;

struct NcclPlace {
  int rank = 0;
  int host = 0;  // a node, or, where links within nodes are shaped, a rank
  // The one of the network that was made for this rank; "": the rank is in the host's own.
  std::string interface;
  int nccl_version = 0;    // as NCCL_VERSION_CODE
  bool shared = false;     // some GPU is used by several ranks
  bool instances = false;  // ranks have instances of one GPU
};

// Returns the variables that NCCL and torch's backend for it are to find, in the order given; what
// the user has set stays as it is.
//   NCCL_HOSTID          one per host, so that namespaces of one machine talk through their link;
//   one
//                        per rank where GPUs are shared, which NCCL before 2.30 takes for a mistake
//   NCCL_SOCKET_IFNAME, NCCL_NET=Socket, NCCL_MNNVL_ENABLE=0   in a network that was made for the
//                        rank: neither InfiniBand nor an NVLink fabric between "hosts" is part of
//                        it. On a real network NCCL and the site's nccl.conf choose.
//   NCCL_MULTI_RANK_GPU_ENABLE   where GPUs are shared, from NCCL 2.30; and by instances, between
//                        which nothing but shared memory and the network works
//   TORCH_NCCL_*         a failed collective is aborted and reported instead of ending the process,
//                        at once and without a dump in a file
std::vector<std::pair<std::string, std::string>> nccl_environment(const NcclPlace& place);

// What NCCL cannot do here, and the remedy.
struct NcclObstacle {
  std::string what;
  std::string remedy;
};

// Returns why this NCCL cannot work at all on GPUs so placed; nothing where it can.
std::optional<NcclObstacle> obstacle_to(const NcclPlace& place);

// Returns what NCCL's log (NCCL_DEBUG=INFO) says the channels go through, each once, sorted:
// "NET/Socket, P2P/CUMEM". Empty where no channel was made.
std::string nccl_transports(const std::string& log);

// Returns how NCCL goes past the links between nodes, whose networks were made here, by its log:
// "rank 0 reaches rank 1 via P2P/CUMEM"; "" where it does not, or the log does not tell. Ranks 0,
// 1, ... of a smaller group pass for the world's. `ranks_per_node`: 1 where links within nodes are
// shaped.
std::string nccl_detour(const std::string& log, int ranks_per_node);

// Returns a sentence where `what`, an error of NCCL, says that it found no network interface, or no
// room in /dev/shm; nothing for any other error. `wanted`: NCCL_SOCKET_IFNAME, or empty;
// `interfaces`: what there is.
std::optional<NcclObstacle> nccl_obstacle(const std::string& what, const std::string& wanted,
                                          const std::vector<std::string>& interfaces);

}  // namespace gradsync::comm
