#include "harness/session/outside_launcher.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/build_info.h"
#include "harness/base/child_process.h"
#include "harness/launch/agent.h"
#include "harness/launch/host_address.h"
#include "harness/launch/tcp.h"
#include "harness/session/exit_status.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

using nlohmann::json;

// What every task must have been started with.
json identity_of(const RunOptions& options, const plan::Plan& plan) {
  const BuildInfo& build = build_info();
  return {{"gradsync", build.version}, {"commit", build.commit},     {"torch", torch_of_ranks()},
          {"plan", plan.source},       {"weights", options.weights}, {"data", options.data}};
}

// Returns the address of the interface that was chosen for the ranks of this host; "": none was.
std::string chosen_address(const RunOptions& options) {
  const std::string interface = launch::chosen_interface(
      options.interface, launch::process_environment(), launch::interface_names());
  if (interface.empty()) return "";
  std::string address = launch::address_of_interface(interface);
  if (address.empty()) {
    throw ConfigError(fmt::format("the network interface '{}' has no address", interface));
  }
  return address;
}

std::string port_key(const launch::TaskPlace& place) {
  return "gradsync/" + place.run_id + "/port";
}

// torchrun's store holds MASTER_PORT: there the leading task listens elsewhere, and says where.
int leader_port(const launch::TaskPlace& place, const RunOptions& options) {
  if (!place.agent_store) return place.master_port;
  return std::stoi(get_from_agent_store(place, options.join_timeout_s, port_key(place)));
}

launch::AgentOptions agent_of(const launch::TaskPlace& place, const RunOptions& options,
                              const plan::Plan& plan) {
  // Before a collective's own deadline, so that the host that is gone is named and not who waits
  // for it.
  constexpr double kOfADeadline = 0.75;
  return {place, identity_of(options, plan), rank_command(), chosen_address(options),
          std::min(launch::kLostAfterS, kOfADeadline * plan.timeout_s)};
}

// Serves the leading task until it says that the job is over; returns the exit status it gives.
ExitStatus follow(const launch::AgentOptions& agent, const RunOptions& options) {
  launch::UniqueFd connection = launch::connect_to(
      agent.place.master_address, leader_port(agent.place, options), options.join_timeout_s);
  return static_cast<ExitStatus>(launch::run_agent(std::move(connection), agent));
}

// Starts an agent for the leading task's own ranks. A process of its own, because the agent must
// answer while this one writes results; forked before this one has threads.
pid_t fork_agent(const launch::AgentOptions& agent, const RunOptions& options) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw EnvironmentError(fmt::format("no agent can be started: fork: {}", std::strerror(errno)),
                           "raise the limit of processes");
  }
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    ::_exit(static_cast<int>(follow(agent, options)));
  } catch (const std::exception&) {
    // The leading task, which is the one that ended it, says why.
    ::_exit(static_cast<int>(ExitStatus::Failed));
  }
}

void reap(pid_t pid) {
  constexpr double kGraceS = 2;
  if (wait_for_end(pid, kGraceS)) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// The leading task's side: an agent of its own as a child process, and all agents.
class LeadingTask {
 public:
  // `agent` is its own.
  LeadingTask(const launch::AgentOptions& agent, const RunOptions& options)
      : own_agent_(fork_agent(agent, options)) {
    const launch::TaskPlace& place = agent.place;
    try {
      launch::UniqueFd listener = launch::listen_on(place.agent_store ? 0 : place.master_port);
      if (place.agent_store) {
        set_in_agent_store(place, options.join_timeout_s, port_key(place),
                           std::to_string(launch::bound_port(listener.get())));
      }
      agents_ = std::make_unique<launch::Agents>(std::move(listener), place, agent.identity,
                                                 options.join_timeout_s, agent.lost_after_s);
    } catch (...) {
      ::kill(own_agent_, SIGKILL);
      reap(own_agent_);
      throw;
    }
  }

  ~LeadingTask() {
    agents_.reset();
    reap(own_agent_);
  }
  LeadingTask(const LeadingTask&) = delete;
  LeadingTask& operator=(const LeadingTask&) = delete;

  launch::Agents& agents() { return *agents_; }
  void end(ExitStatus status) { agents_->end(static_cast<int>(status)); }

 private:
  pid_t own_agent_;
  std::unique_ptr<launch::Agents> agents_;
};

}  // namespace

std::optional<launch::TaskPlace> place_of(const RunOptions& options) {
  if (options.launcher == "none") return std::nullopt;
  return launch::find_task_place(launch::process_environment(), options.ranks_per_node);
}

RunOptions with_topology_of(const launch::TaskPlace& place, RunOptions options) {
  const std::string name = place.topology().name;
  for (const std::string& text : options.overrides) {
    const std::string field = text.substr(0, text.find('='));
    if (!field.ends_with("topology")) continue;
    throw ConfigError(
        fmt::format("--set {}: {} started {} nodes of {} ranks, and so the topology is {}; leave "
                    "it out, or give --launcher none",
                    text, place.launcher, place.nodes, place.ranks_per_node, name));
  }
  options.overrides.push_back("topology=" + name);
  options.started_by = place.launcher;
  return options;
}

ExitStatus lead_or_follow(const std::optional<launch::TaskPlace>& place, const RunOptions& options,
                          const plan::Plan& plan,
                          const std::function<ExitStatus(launch::Agents*)>& lead) {
  require_device(plan);
  if (!place) return lead(nullptr);
  const launch::AgentOptions agent = agent_of(*place, options, plan);
  if (place->task != 0) return follow(agent, options);
  LeadingTask leader(agent, options);
  ExitStatus status = ExitStatus::Internal;
  try {
    status = lead(&leader.agents());
  } catch (const std::exception& error) {
    leader.end(exit_status_of(error));
    throw;
  }
  leader.end(status);
  return status;
}

}  // namespace gradsync::session
