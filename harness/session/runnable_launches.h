// Turns a launch of a plan into one that the coordinator can run: the specification for its ranks,
// how they are started, and the network between them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/coordinate/watched_group.h"
#include "harness/launch/agents.h"
#include "harness/launch/fabric.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

// Returns whether the user keeps times of ranks that wait for cores which other processes use:
// GRADSYNC_BUSY_TIMES=keep in the environment. For machines that are never quiet.
bool keeps_busy_times();

// Makes the launches of one plan runnable. A topology's network is made once and kept for the next
// launch.
class RunnableLaunches {
 public:
  // "TOPOLOGY / SCALE" names a network.
  using FabricMade = std::function<void(const std::string& name, const launch::Fabric& fabric)>;

  // `plan` must outlive this. `agents` host the ranks where an outside launcher started the
  // program; null: they are this process's children. `fabric_made` is called with every network
  // before a rank uses it; may be empty.
  RunnableLaunches(const RunOptions& options, const plan::Plan& plan, launch::Agents* agents,
                   FabricMade fabric_made);

  // Returns why ranks that run `cell` would not fit into the memory of their machine, by an
  // estimate; "" if they fit or if there is no estimate.
  std::string lacks_memory_for(const plan::Launch& launch, const plan::Cell& cell) const;

  // Returns the predicted peak memory of a rank that runs `cell`; nothing: there is no prediction.
  // Errors: ConfigError for a bad profile.
  std::optional<std::int64_t> predicted_peak(const plan::Launch& launch,
                                             const plan::Cell& cell) const;

  // Returns what runs `trials`, which are of `launch`. This must outlive it.
  // Errors: ConfigError for the topology; EnvironmentError where this machine cannot make its
  // network; whatever `fabric_made` throws.
  coordinate::RunnableLaunch runnable(const plan::Launch& launch, std::vector<plan::Trial> trials);

 private:
  launch::LaunchSpec spec_of(const plan::Launch& launch, std::vector<plan::Trial> trials) const;
  // Returns how many bytes a rank may hold if all ranks of a machine hold the same; nothing: not
  // known.
  std::optional<std::int64_t> memory_per_rank(const launch::LaunchSpec& spec) const;
  launch::SpawnOptions spawn_options(const launch::LaunchSpec& spec) const;
  bool stands_alone() const { return plan_.backend == "fake"; }
  const launch::Fabric& fabric_for(const launch::Topology& topology, const plan::Launch& launch);

  std::string weights_;
  std::string data_;
  const plan::Plan& plan_;
  launch::Agents* agents_;
  FabricMade fabric_made_;
  std::map<std::string, std::unique_ptr<launch::Fabric>> fabrics_;
};

}  // namespace gradsync::session
