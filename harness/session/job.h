// A run whose tasks an outside launcher started: who leads, who follows, and how they meet.
//
// Every task of the job is this same program with the same plan. Task 0 leads: it runs the plan,
// writes the results and prints the table. All tasks, the leading one too, host ranks through an
// agent (launch/agent.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/errors.h"
#include "harness/launch/agent.h"
#include "harness/launch/agents.h"
#include "harness/launch/task_place.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

// Returns where the user's launcher put this task; nothing where none did or --launcher says so.
// Errors: ConfigError where the environment makes no sense.
std::optional<launch::TaskPlace> place_of(const RunOptions& options);

// Returns the options with the nodes and ranks that an outside launcher started as the one topology
// of the plan: they are what there is. Errors: ConfigError where they choose another one.
RunOptions with_topology_of(const launch::TaskPlace& place, RunOptions options);

// The leading task's side: an agent of its own as a child process, and all agents.
class Job {
 public:
  // `agent` is its own. Blocks until every task has joined, options.join_timeout_s at most.
  // Errors: as launch::Agents; EnvironmentError where the port is taken.
  Job(const launch::AgentOptions& agent, const RunOptions& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  launch::Agents& agents() { return *agents_; }
  void end(ExitStatus status) { agents_->end(static_cast<int>(status)); }

 private:
  pid_t own_agent_;
  std::unique_ptr<launch::Agents> agents_;
};

// Returns what `lead` does: called in the leading task with the agents of all, or with null where
// no outside launcher started the program. In any other task, serves the leading one.
// Errors: as require_device, Job and `lead`; ConfigError where an interface was chosen that this
// host has not.
ExitStatus lead_or_follow(const std::optional<launch::TaskPlace>& place, const RunOptions& options,
                          const plan::Plan& plan,
                          const std::function<ExitStatus(launch::Agents*)>& lead);

}  // namespace gradsync::session
