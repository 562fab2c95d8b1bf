#include "harness/session/runnable_launches.h"

#include <fmt/format.h>

#include <cstdlib>

#include "harness/base/units.h"
#include "harness/launch/cgroup.h"
#include "harness/launch/cores.h"
#include "harness/launch/host.h"
#include "harness/launch/local_ranks.h"
#include "harness/launch/topology.h"
#include "harness/memory/launch_memory.h"
#include "harness/memory/memory_prediction.h"
#include "harness/paper/standins.h"
#include "harness/session/interrupt.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

// The same ranks where nothing is sent: on this host's loopback, whatever links them.
launch::Topology without_links(launch::Topology topology) {
  topology.ranks_per_node = topology.world_size();
  topology.nodes = 1;
  topology.inter_node_bits_per_s.reset();
  topology.intra_node_bits_per_s.reset();
  return topology;
}

// Built once for the ranks' torch.
const std::string& standins() {
  static const std::string library = paper::build_standins(about_ranks().torch_folder);
  return library;
}

}  // namespace

bool keeps_busy_times() {
  const char* value = std::getenv("GRADSYNC_BUSY_TIMES");
  return value != nullptr && std::string(value) == "keep";
}

RunnableLaunches::RunnableLaunches(const RunOptions& options, const plan::Plan& plan,
                                   launch::Agents* agents, FabricMade fabric_made)
    : weights_(options.weights),
      data_(options.data),
      plan_(plan),
      agents_(agents),
      fabric_made_(std::move(fabric_made)) {}

coordinate::RunnableLaunch RunnableLaunches::runnable(const plan::Launch& launch,
                                                      std::vector<plan::Trial> trials) {
  coordinate::RunnableLaunch runnable;
  runnable.part = launch.part;
  runnable.spec = spec_of(launch, std::move(trials));
  const auto room = memory_per_rank(runnable.spec);
  runnable.spec.one_workload_at_a_time =
      room && !runnable.spec.as_published &&
      memory::together_bytes(runnable.spec.trials, runnable.spec) > *room;
  runnable.interrupted = &interrupt_flag();
  const launch::SpawnOptions spawn = spawn_options(runnable.spec);
  const launch::Topology topology = runnable.spec.topology;
  if (agents_ != nullptr) {
    runnable.cores = {agents_->usable_cpus(), agents_->cores(), agents_->least_cpu_quota(),
                      agents_->place().ranks, keeps_busy_times()};
    runnable.start_ranks = [agents = agents_, spawn] {
      return std::make_unique<launch::RemoteRanks>(*agents, spawn);
    };
    return runnable;
  }
  const launch::Fabric& fabric = fabric_for(topology, launch);
  const launch::RankRange range{0, stands_alone() ? 1 : topology.world_size()};
  const std::vector<launch::Processor> processors = launch::usable_processors();
  runnable.cores = {static_cast<int>(processors.size()), launch::core_count(processors),
                    launch::Cgroups().cpu_quota(), range.count, keeps_busy_times()};
  runnable.start_ranks = [topology, &fabric, spawn, range] {
    return std::make_unique<launch::LocalRanks>(topology, fabric, spawn, range);
  };
  return runnable;
}

launch::LaunchSpec RunnableLaunches::spec_of(const plan::Launch& launch,
                                             std::vector<plan::Trial> trials) const {
  launch::LaunchSpec spec;
  spec.trials = std::move(trials);
  spec.topology = launch::read_topology(launch.topology, topologies_directory(), launch.scale);
  spec.seed = plan_.seed;
  spec.launch = launch.launch;
  spec.timeout_s = plan_.timeout_s;
  spec.as_published = plan_.window_rule == "as_published";
  spec.threads_per_rank = plan_.threads_per_rank;
  spec.gloo_loop_yields = plan_.gloo_loop == "yields";
  spec.paper = plan_.device == "paper";
  spec.device = spec.paper ? "cuda" : plan_.device;
  spec.backend = plan_.backend;
  spec.fold_from_bytes = plan_.fold_from_bytes;
  spec.every_micro_batch = plan_.every_micro_batch;
  // Nodes that we make ourselves are namespaces of this one machine.
  spec.ranks_per_host =
      agents_ == nullptr ? spec.topology.world_size() : spec.topology.ranks_per_node;
  if (spec.paper) {
    spec.on = plan_.on.empty() ? fmt::format("{}xh100", spec.ranks_per_host) : plan_.on;
  }
  spec.weights = weights_;
  spec.data = data_;
  return spec;
}

std::optional<std::int64_t> RunnableLaunches::memory_per_rank(
    const launch::LaunchSpec& spec) const {
  if (spec.paper) return std::nullopt;  // its tensors are addresses, and no memory
  const auto available = agents_ == nullptr ? launch::memory_available_bytes()
                                            : agents_->least_memory_available_bytes();
  if (!available) return std::nullopt;
  return *available / (stands_alone() ? 1 : spec.ranks_per_host);
}

std::string RunnableLaunches::lacks_memory_for(const plan::Launch& launch,
                                               const plan::Cell& cell) const {
  const launch::LaunchSpec spec = spec_of(launch, {});
  const auto need = memory::estimated_peak_bytes(cell, spec);
  const auto room = memory_per_rank(spec);
  if (!need || !room || *need <= *room) return "";
  return fmt::format("a rank would hold some {}, and {} of memory are available to each",
                     format_bytes(static_cast<double>(*need)),
                     format_bytes(static_cast<double>(*room)));
}

std::optional<std::int64_t> RunnableLaunches::predicted_peak(const plan::Launch& launch,
                                                             const plan::Cell& cell) const {
  const auto prediction = memory::predict_memory(cell, spec_of(launch, {}));
  if (!prediction.memory) return std::nullopt;
  return prediction.memory->peak_bytes;
}

launch::SpawnOptions RunnableLaunches::spawn_options(const launch::LaunchSpec& spec) const {
  launch::SpawnOptions spawn;
  spawn.command = rank_command();
  // c10d warns that a private namespace has no names for its addresses; it needs none.
  spawn.environment = {{"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  spawn.threads_per_rank = plan_.threads_per_rank;
  // Beside a GPU, autograd's and NCCL's threads need cores; a rank that is alone may have them all.
  spawn.pin = plan_.device == "cpu" && !stands_alone();
  // Its threads have no times to keep: waiting, they leave the cores to others.
  if (stands_alone()) spawn.environment.emplace_back("OMP_WAIT_POLICY", "PASSIVE");
  // Between namespaces NCCL would find the way round the shaped link, an InfiniBand card for one.
  if (agents_ == nullptr) spawn.environment.emplace_back("NCCL_NET", "Socket");
  if (spec.paper) {
    for (auto& variable : paper::environment_of(standins(), spec.on)) {
      spawn.environment.push_back(std::move(variable));
    }
  }
  return spawn;
}

const launch::Fabric& RunnableLaunches::fabric_for(const launch::Topology& topology,
                                                   const plan::Launch& launch) {
  const std::string name = fmt::format("{} / {}", launch.topology, launch.scale);
  const auto found = fabrics_.find(name);
  if (found != fabrics_.end()) return *found->second;
  auto fabric = launch::make_fabric(stands_alone() ? without_links(topology) : topology);
  if (fabric_made_) fabric_made_(name, *fabric);
  return *(fabrics_[name] = std::move(fabric));
}

}  // namespace gradsync::session
