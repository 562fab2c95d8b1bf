// A run whose tasks an outside launcher started: which task leads, and how they meet.
//
// Every task is this same program with the same plan. Task 0 leads: it runs the plan, writes the
// results and prints the table. All tasks, the leading one too, host ranks through an agent
// (launch/agent.h).
#pragma once

#include <functional>
#include <optional>

#include "harness/base/errors.h"
#include "harness/launch/agents.h"
#include "harness/launch/task_place.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

// Returns where the user's launcher put this task; nothing without a launcher or with --launcher
// none. Errors: ConfigError where the environment makes no sense.
std::optional<launch::TaskPlace> place_of(const RunOptions& options);

// Returns the options with the nodes and ranks that an outside launcher started as the one topology
// of the plan: they are what there is. Errors: ConfigError where they choose another one.
RunOptions with_topology_of(const launch::TaskPlace& place, RunOptions options);

// Returns what `lead` does: called in the leading task with the agents of all, or with null where
// no outside launcher started the program; blocks until every task has joined first,
// options.join_timeout_s at most. In any other task, serves the leading one.
// Errors: as require_device, launch::Agents and `lead`; EnvironmentError where the port is taken;
// ConfigError where an interface was chosen that this host has not.
ExitStatus lead_or_follow(const std::optional<launch::TaskPlace>& place, const RunOptions& options,
                          const plan::Plan& plan,
                          const std::function<ExitStatus(launch::Agents*)>& lead);

}  // namespace gradsync::session
