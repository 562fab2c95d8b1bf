#include "harness/launch/task_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

constexpr int kMostTasks = 1 << 20;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return !text(name).empty(); }

  std::string text(const std::string& name, const std::string& fallback = "") const {
    const auto found = environment_.find(name);
    return found == environment_.end() || found->second.empty() ? fallback : found->second;
  }

  // Errors: ConfigError where it is no number from `least` to `most`.
  int number(const std::string& name, int least, int most = kMostTasks) const {
    const std::string value = text(name);
    if (value.empty()) {
      throw ConfigError(
          fmt::format("environment variable {} is unset, expected a number from {}: "
                      "{} sets it, or set it yourself, or unset the others of its "
                      "family to start without a launcher",
                      name, least, owner(name)));
    }
    int result = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || rest != value.data() + value.size() || result < least ||
        result > most) {
      throw ConfigError(fmt::format("environment variable {}: got '{}', expected a number from {}",
                                    name, value, least));
    }
    return result;
  }

 private:
  static const char* owner(const std::string& name) {
    if (name.starts_with("OMPI")) return "mpirun";
    return name.starts_with("SLURM") ? "srun" : "torchrun";
  }
  const Environment& environment_;
};

[[noreturn]] void contradict(const std::string& what) {
  throw ConfigError(fmt::format("the launcher's environment contradicts itself: {}", what));
}

void check_below(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  contradict(fmt::format("{} is {}, expected less than {} {}", name, value, limit_name, limit));
}

// How one task per rank is described, whatever the launcher's names for it.
struct PerRank {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// Fills in a place with one task per rank. Ranks must be dealt out node by node.
void place_rank(const Reader& reader, const PerRank& names, TaskPlace& place) {
  place.task = reader.number(names.rank, 0);
  place.tasks = reader.number(names.size, 1);
  const int local_rank = reader.number(names.local_rank, 0);
  place.ranks_per_node = reader.number(names.local_size, 1);
  check_below(names.rank, place.task, names.size, place.tasks);
  check_below(names.local_rank, local_rank, names.local_size, place.ranks_per_node);
  if (place.tasks % place.ranks_per_node != 0) {
    contradict(fmt::format("{} {} is no multiple of {} {}; every node needs as many ranks",
                           names.size, place.tasks, names.local_size, place.ranks_per_node));
  }
  if (place.task % place.ranks_per_node != local_rank) {
    contradict(fmt::format(
        "{} {} with {} {} and {} {}: ranks must fill one node after the other (mpirun --map-by "
        "slot, srun --distribution=block)",
        names.rank, place.task, names.local_rank, local_rank, names.local_size,
        place.ranks_per_node));
  }
  place.node = place.task / place.ranks_per_node;
  place.nodes = place.tasks / place.ranks_per_node;
  place.first_rank = place.task;
}

// Makes one task per node host `ranks` of them.
void host_node(TaskPlace& place, int ranks) {
  place.ranks = place.ranks_per_node = ranks;
  place.node = place.task;
  place.nodes = place.tasks;
  place.first_rank = place.task * ranks;
}

// The user's --ranks-per-node against what the launcher started on each node.
void apply_ranks_per_node(TaskPlace& place, int wanted) {
  if (wanted == 0 || wanted == place.ranks_per_node) return;
  if (place.ranks_per_node != 1) {
    contradict(fmt::format("--ranks-per-node is {}, but {} started {} tasks on each node", wanted,
                           place.launcher, place.ranks_per_node));
  }
  host_node(place, wanted);
}

// RANK without LOCAL_RANK: one task per node, and RANK and WORLD_SIZE may count either.
void place_node(const Reader& reader, int wanted, TaskPlace& place) {
  const int rank = reader.number("RANK", 0);
  const int world_size = reader.number("WORLD_SIZE", 1);
  const std::string per_node = reader.text("PET_NPROC_PER_NODE");
  const bool counted = !per_node.empty() && std::ranges::all_of(per_node, ::isdigit);
  int ranks = counted ? reader.number("PET_NPROC_PER_NODE", 1) : std::max(1, wanted);
  if (counted && wanted != 0 && wanted != ranks) {
    contradict(
        fmt::format("--ranks-per-node is {}, but PET_NPROC_PER_NODE is {}", wanted, per_node));
  }
  place.tasks = reader.has("PET_NNODES") ? reader.number("PET_NNODES", 1) : world_size;
  if (world_size != place.tasks && world_size != place.tasks * ranks) {
    contradict(fmt::format("WORLD_SIZE is {}, expected PET_NNODES {} or that times {} ranks",
                           world_size, place.tasks, ranks));
  }
  place.task = reader.has("PET_NODE_RANK") ? reader.number("PET_NODE_RANK", 0) : rank;
  check_below("RANK", place.task, "the number of nodes", place.tasks);
  host_node(place, ranks);
}

void place_torchrun(const Reader& reader, int wanted, TaskPlace& place) {
  const bool elastic = reader.has("TORCHELASTIC_RUN_ID");
  if (!reader.has("LOCAL_RANK")) {
    if (elastic) reader.number("LOCAL_RANK", 0);  // torchrun always sets it: says what is missing
    place.launcher = reader.has("PET_NNODES") || reader.has("KUBERNETES_SERVICE_HOST")
                         ? "PyTorchJob"
                         : "environment";
    place_node(reader, wanted, place);
    return;
  }
  place.launcher = elastic ? "torchrun" : "environment";
  place_rank(reader, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, place);
  if (reader.has("GROUP_RANK") && reader.number("GROUP_RANK", 0) != place.node) {
    contradict(fmt::format("GROUP_RANK is {}, but RANK {} of {} per node is on node {}",
                           reader.text("GROUP_RANK"), place.task, place.ranks_per_node,
                           place.node));
  }
  place.agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  apply_ranks_per_node(place, wanted);
}

// Two launchers' words for the same thing must agree, unless torchrun was itself started by the
// other (one torchrun per node under srun).
void check_agreement(const Reader& reader, const TaskPlace& place) {
  if (place.launcher == "torchrun" || place.launcher == "PyTorchJob") return;
  const auto compare = [&](const char* name) {
    if (!reader.has(name) || reader.number(name, 0) == place.task) return;
    contradict(fmt::format("{} is {}, but RANK is {}", name, reader.text(name), place.task));
  };
  compare("OMPI_COMM_WORLD_RANK");
  if (reader.has("SLURM_STEP_ID")) compare("SLURM_PROCID");
}

void place_mpirun(const Reader& reader, int wanted, TaskPlace& place) {
  place.launcher = "mpirun";
  place_rank(reader,
             {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
              "OMPI_COMM_WORLD_LOCAL_SIZE"},
             place);
  apply_ranks_per_node(place, wanted);
}

// "2(x3)" is two tasks on each of three nodes; "2,1" differs from node to node.
void check_even(const std::string& tasks_per_node) {
  if (tasks_per_node.find(',') == std::string::npos) return;
  contradict(
      fmt::format("SLURM_STEP_TASKS_PER_NODE is {}; every node needs as many tasks (srun "
                  "--ntasks-per-node)",
                  tasks_per_node));
}

void place_srun(const Reader& reader, int wanted, TaskPlace& place) {
  place.launcher = "srun";
  check_even(reader.text("SLURM_STEP_TASKS_PER_NODE"));
  const int tasks = reader.number("SLURM_STEP_NUM_TASKS", 1);
  const int nodes = reader.number("SLURM_STEP_NUM_NODES", 1);
  if (tasks % nodes != 0) {
    contradict(fmt::format("SLURM_STEP_NUM_TASKS {} is no multiple of SLURM_STEP_NUM_NODES {}",
                           tasks, nodes));
  }
  place.task = reader.number("SLURM_PROCID", 0);
  place.tasks = tasks;
  place.nodes = nodes;
  place.ranks_per_node = tasks / nodes;
  place.node = reader.number("SLURM_NODEID", 0);
  place.first_rank = place.task;
  check_below("SLURM_PROCID", place.task, "SLURM_STEP_NUM_TASKS", tasks);
  if (place.task / place.ranks_per_node != place.node) {
    contradict(
        fmt::format("SLURM_PROCID {} is on SLURM_NODEID {}, expected {}: ranks must fill one "
                    "node after the other (srun --distribution=block)",
                    place.task, place.node, place.task / place.ranks_per_node));
  }
  place.master_address = first_slurm_host(reader.text("SLURM_STEP_NODELIST", "127.0.0.1"));
  apply_ranks_per_node(place, wanted);
}

void find_master(const Reader& reader, TaskPlace& place) {
  if (reader.has("MASTER_ADDR")) {
    place.master_address = reader.text("MASTER_ADDR");
  } else if (place.nodes == 1) {
    place.master_address = "127.0.0.1";
  } else if (place.launcher != "srun") {
    throw ConfigError(fmt::format(
        "MASTER_ADDR is unset, expected the host of rank 0, since there are {} nodes{}",
        place.nodes, place.launcher == "mpirun" ? " (mpirun -x MASTER_ADDR=HOST)" : ""));
  }
  if (reader.has("MASTER_PORT")) place.master_port = reader.number("MASTER_PORT", 1, 65535);
}

// Returns the run id that the found launcher gave. Variables that another launcher left in the
// environment may differ between tasks.
std::string run_id_of(const Reader& reader, const std::string& launcher) {
  if (reader.has("GRADSYNC_TOKEN")) return reader.text("GRADSYNC_TOKEN");
  if (launcher == "torchrun") {
    return reader.text("TORCHELASTIC_RUN_ID") + "/" +
           reader.text("TORCHELASTIC_RESTART_COUNT", "0");
  }
  if (launcher == "srun") return reader.text("SLURM_JOB_ID") + "." + reader.text("SLURM_STEP_ID");
  if (launcher == "mpirun") return reader.text("PMIX_NAMESPACE", "gradsync");
  return "gradsync";
}

}  // namespace

Topology TaskPlace::topology() const {
  Topology topology;
  topology.name = fmt::format("{}x{}", nodes, ranks_per_node);
  topology.nodes = nodes;
  topology.ranks_per_node = ranks_per_node;
  return topology;
}

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> environment_with(const EnvironmentChanges& changes) {
  Environment merged = process_environment();
  for (const auto& [name, value] : changes) merged[name] = value;
  std::vector<std::string> strings;
  for (const auto& [name, value] : merged) strings.push_back(fmt::format("{}={}", name, value));
  return strings;
}

std::optional<TaskPlace> find_task_place(const Environment& environment, int ranks_per_node) {
  const Reader reader(environment);
  TaskPlace place;
  if (reader.has("RANK") || reader.has("WORLD_SIZE")) {
    place_torchrun(reader, ranks_per_node, place);
    check_agreement(reader, place);
  } else if (reader.has("OMPI_COMM_WORLD_RANK")) {
    place_mpirun(reader, ranks_per_node, place);
  } else if (reader.has("SLURM_STEP_ID") && reader.has("SLURM_PROCID")) {
    place_srun(reader, ranks_per_node, place);
  } else {
    return std::nullopt;
  }
  find_master(reader, place);
  place.run_id = run_id_of(reader, place.launcher);
  return place;
}

std::string first_slurm_host(const std::string& node_list) {
  std::string host;
  bool in_brackets = false;
  bool in_first_number = true;  // of the brackets; true outside of them
  for (const char c : node_list) {
    if (c == '[' || c == ']') {
      in_brackets = c == '[';
      in_first_number = true;
    } else if (in_brackets && (c == ',' || c == '-')) {
      in_first_number = false;
    } else if (c == ',') {
      break;
    } else if (in_first_number) {
      host += c;
    }
  }
  return host;
}

}  // namespace gradsync::launch
