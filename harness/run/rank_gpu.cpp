#include "harness/run/rank_gpu.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/base/errors.h"
#include "harness/launch/program_output.h"
#include "harness/launch/tcp.h"

namespace gradsync::run {

RankGpu::RankGpu(const launch::LaunchSpec& spec, const launch::RankPlace& place)
    : spec_(spec), place_(place) {
  comm::GpuModule& module = comm::load_gpu_module();
  const int index = comm::gpu_of_rank(place.rank % spec.ranks_per_host, module.count());
  gpu_ = module.open(index, steady_clock(), spec.timeout_s);
}

void RankGpu::meet(c10d::Store& store) {
  const auto key = [](int rank) { return fmt::format("gpu of rank {}", rank); };
  const results::GpuDescription gpu = gpu_->description();
  const int host = place_.rank / spec_.ranks_per_host;
  const std::string own =
      comm::GpuPlace{gpu.uuid, fmt::format("{} {}", host, gpu.pci_bus_id)}.text();
  store.set(key(place_.rank), std::vector<std::uint8_t>(own.begin(), own.end()));
  std::vector<comm::GpuPlace> places;
  for (int rank = 0; rank < place_.world_size; ++rank) {
    const std::vector<std::uint8_t> bytes = store.get(key(rank));
    places.push_back(comm::gpu_place({bytes.begin(), bytes.end()}));
  }
  sharing_ = comm::gpu_sharing(places);
  if (spec_.backend == "nccl") prepare_nccl(comm::are_instances(places));
}

void RankGpu::prepare_nccl(bool has_instances) {
  comm::NcclPlace nccl;
  nccl.rank = place_.rank;
  nccl.host = is_linked_within_nodes() ? place_.rank : place_.node;
  nccl.interface = place_.interface;
  nccl.nccl_version = gpu_->nccl_version();
  nccl.shared = sharing_.shared();
  nccl.instances = has_instances;
  if (const auto obstacle = comm::obstacle_to(nccl)) {
    throw EnvironmentError(obstacle->what, obstacle->remedy);
  }
  for (const auto& [name, value] : comm::nccl_environment(nccl)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  catch_nccl_log();
}

void RankGpu::catch_nccl_log() {
  if (std::getenv("NCCL_DEBUG") != nullptr || std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  nccl_log_ = launch::UniqueFd(::memfd_create("gradsync_nccl_log", MFD_CLOEXEC));
  if (!nccl_log_) return;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);  // one line per channel, none per collective
  ::setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", nccl_log_.get()).c_str(), 1);
}

// Where links within a node are shaped, each of its ranks has a network of its own.
bool RankGpu::is_linked_within_nodes() const {
  return spec_.topology.intra_node_bits_per_s.has_value();
}

std::string RankGpu::detour() const {
  if (!nccl_log_ || place_.interface.empty()) return "";
  const int ranks_per_node = is_linked_within_nodes() ? 1 : spec_.topology.ranks_per_node;
  const std::string detour = comm::nccl_detour(launch::content_of(nccl_log_.get()), ranks_per_node);
  if (detour.empty()) return "";
  return fmt::format(
      "NCCL goes past the links of topology {}: {}; leave NCCL_NET, NCCL_HOSTID and "
      "NCCL_MNNVL_ENABLE unset, or take a topology of one node",
      spec_.topology.name, detour);
}

void RankGpu::add_to(results::ModelInfo& info) const {
  info.gpu = gpu_->description();
  const std::string transports =
      nccl_log_ ? comm::nccl_transports(launch::content_of(nccl_log_.get())) : "";
  info.nccl_transports.emplace();
  if (!transports.empty()) info.nccl_transports = transports;
  if (sharing_.shared()) info.refuse_times(sharing_.reason());
}

std::optional<comm::NcclObstacle> nccl_obstacle_here(const std::string& what) {
  const char* wanted = std::getenv("NCCL_SOCKET_IFNAME");
  return comm::nccl_obstacle(what, wanted == nullptr ? "" : wanted, launch::interface_names());
}

}  // namespace gradsync::run
