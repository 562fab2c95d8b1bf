// Where an outside launcher put this process: torchrun, mpirun, srun, a Kubernetes PyTorchJob, or a
// person who started it by hand on several hosts.
//
// The program is started once per task. A task hosts one rank, or all ranks of its node; which,
// follows from the environment. What is read, first match wins:
//
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE   torchrun: one task per rank
//   RANK, WORLD_SIZE without LOCAL_RANK              PyTorchJob, or by hand: one task per node.
//   With
//     PET_NNODES and PET_NPROC_PER_NODE, WORLD_SIZE may count nodes or ranks; without, nodes
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE   Open MPI's mpirun
//   SLURM_STEP_ID with SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID,
//     SLURM_STEP_NUM_NODES, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST   srun. A batch script
//     outside srun has no SLURM_STEP_ID and is a task of its own
//
// MASTER_ADDR and MASTER_PORT say where task 0 listens; without them: this host where there is one
// node, srun's first node, and port 29500.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/topology.h"

namespace gradsync::launch {

// Variables by name. Empty ones count as unset.
using Environment = std::map<std::string, std::string>;

// Returns this process's environment.
Environment process_environment();

// Variables for a child, by name and value; of two with one name the later counts.
using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

// Returns this process's environment with `changes` on top, as "NAME=VALUE" each.
std::vector<std::string> environment_with(const EnvironmentChanges& changes);

struct TaskPlace {
  std::string launcher;  // "torchrun", "PyTorchJob", "mpirun", "srun" or "environment" (by hand)
  int task = 0;          // among the tasks, from 0; task 0 leads
  int tasks = 1;
  int node = 0;
  int nodes = 1;
  int ranks_per_node = 1;
  int first_rank = 0;  // this task hosts ranks first_rank ... first_rank + ranks - 1
  int ranks = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  // torchrun's own store listens at that port already: the tasks find each other through it.
  bool agent_store = false;
  // Names this start of the job, the same in all of its tasks: a restarted one does not meet its
  // predecessor's words, and tasks of two jobs that were given one port tell each other apart. From
  // GRADSYNC_TOKEN if that is set, else of the launcher: TORCHELASTIC_RUN_ID and its restart count,
  // Slurm's job and step, or PMIX_NAMESPACE. "gradsync" where there is no such name.
  std::string run_id;

  // What was started: nodes x ranks_per_node, with whatever links there are.
  Topology topology() const;
};

// Returns this process's place; nothing where no launcher of those above started it.
// `ranks_per_node` is the user's word for tasks that host a whole node, 0: none given.
// Errors: ConfigError naming the variable that is missing, no number, or at odds with another.
std::optional<TaskPlace> find_task_place(const Environment& environment, int ranks_per_node = 0);

// Returns the first host of Slurm's compressed list: "gpu[07-12,20],login" is gpu07. By hand,
// because the library that reads such lists, libslurm, and its scontrol are seldom in a job's
// container, and the first host is all that is wanted; task_place_test holds it against scontrol.
std::string first_slurm_host(const std::string& node_list);

}  // namespace gradsync::launch
