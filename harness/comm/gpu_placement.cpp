#include "harness/comm/gpu_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace gradsync::comm {
int gpu_of_rank(int rank_on_host, int gpus) {
  return rank_on_host % gpus;
}

std::string GpuSharing::reason() const {
  if (!shared()) return "";
  return fmt::format("{} ranks share {} GPU{}", ranks, gpus, gpus == 1 ? "" : "s");
}

GpuSharing gpu_sharing(const std::vector<GpuPlace>& gpus) {
  std::set<std::string> uuids;
  for (const GpuPlace& gpu : gpus) uuids.insert(gpu.uuid);
  return {static_cast<int>(gpus.size()), static_cast<int>(uuids.size())};
}

GpuPlace gpu_place(const std::string& text) {
  const auto space = text.find(' ');
  return {text.substr(0, space), space == std::string::npos ? "" : text.substr(space + 1)};
}

bool are_instances(const std::vector<GpuPlace>& gpus) {
  std::map<std::string, std::string> of_parent;
  return std::ranges::any_of(gpus, [&](const GpuPlace& gpu) {
    return of_parent.emplace(gpu.parent, gpu.uuid).first->second != gpu.uuid;
  });
}

std::vector<std::pair<std::string, std::string>> nccl_environment(const NcclPlace& place) {
  const bool knows_sharing = place.nccl_version >= kFirstWithSharedGpus;
  std::vector<std::pair<std::string, std::string>> variables{
      {"NCCL_HOSTID", place.shared && !knows_sharing ? fmt::format("gradsync-rank{}", place.rank)
                                                     : fmt::format("gradsync-host{}", place.host)},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1"}};
  if (!place.interface.empty()) {
    variables.emplace_back("NCCL_SOCKET_IFNAME", "=" + place.interface);
    variables.emplace_back("NCCL_NET", "Socket");
  }
  if (!place.interface.empty() || place.instances) {
    variables.emplace_back("NCCL_MNNVL_ENABLE", "0");
  }
  if ((place.shared && knows_sharing) || place.instances) {
    variables.emplace_back("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  }
  return variables;
}

std::optional<NcclObstacle> obstacle_to(const NcclPlace& place) {
  if (!place.instances || place.nccl_version >= kFirstWithSharedGpus) return std::nullopt;
  return NcclObstacle{
      fmt::format("ranks have MIG instances of one GPU, which NCCL {}.{} takes for the GPU itself",
                  place.nccl_version / 10000, place.nccl_version / 100 % 100),
      "install a torch with NCCL 2.30 or later, give each rank a whole GPU (nvidia-smi -mig 0), or "
      "use --backend gloo"};
}

std::string nccl_transports(const std::string& log) {
  // "... NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"
  static const std::regex channel(R"(Channel .* via (\w+(/[A-Za-z]\w*)?))");
  std::set<std::string> found;
  for (std::sregex_iterator match(log.begin(), log.end(), channel), end; match != end; ++match) {
    found.insert((*match)[1].str());
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string nccl_detour(const std::string& log, int ranks_per_node) {
  // As in nccl_transports, with both ranks; "comm 0x55 rank 0 nRanks 2 nNodes 2 ... MNNVL 1".
  static const std::regex channel(
      R"(Channel [^\n]*: (\d+)\[[^\]]*\] -> (\d+)\[[^\]]*\][^\n]* via (\w+(/[A-Za-z]\w*)?))");
  static const std::regex fabric(R"(MNNVL [1-9])");
  for (std::sregex_iterator match(log.begin(), log.end(), channel), end; match != end; ++match) {
    const int from = std::stoi((*match)[1].str());
    const int to = std::stoi((*match)[2].str());
    if (from / ranks_per_node == to / ranks_per_node || (*match)[3].str() == "NET/Socket") continue;
    return fmt::format("rank {} reaches rank {} via {}", from, to, (*match)[3].str());
  }
  return std::regex_search(log, fabric) ? "an NVLink fabric (MNNVL) links nodes" : "";
}

std::optional<NcclObstacle> nccl_obstacle(const std::string& what, const std::string& wanted,
                                          const std::vector<std::string>& interfaces) {
  const auto says = [&](const char* text) { return what.find(text) != std::string::npos; };
  // "Error while creating shared memory segment /dev/shm/nccl-Vq3dUb (size 9637888), error: No
  // space left on device (28)" and "failed to extend /dev/shm/nccl-..." of NCCL 2.28.
  if (says("shared memory segment") || says("/dev/shm/nccl-")) {
    return NcclObstacle{"NCCL got no shared memory: /dev/shm is full or too small",
                        "start the container with --ipc=host or --shm-size=8g; in Kubernetes, "
                        "mount an emptyDir of medium Memory at /dev/shm"};
  }
  // "Bootstrap : no socket interface found", "NET/Socket : no interface found" and "NET/Socket : No
  // usable listening interface found" of NCCL 2.28.
  if (!says("no socket interface found") && !says("no interface found") &&
      !says("o usable listening interface")) {
    return std::nullopt;
  }
  NcclObstacle obstacle;
  obstacle.what = fmt::format(
      "NCCL found no network interface {}; there {}: {}",
      wanted.empty() ? "that it may use" : fmt::format("for NCCL_SOCKET_IFNAME='{}'", wanted),
      interfaces.size() == 1 ? "is" : "are",
      interfaces.empty() ? "none" : fmt::format("{}", fmt::join(interfaces, ", ")));
  obstacle.remedy = wanted.empty()
                        ? "set NCCL_SOCKET_IFNAME to the one that reaches the other ranks"
                        : "unset NCCL_SOCKET_IFNAME, or set it to one of those";
  return obstacle;
}

}  // namespace gradsync::comm
