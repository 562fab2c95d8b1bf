// The options of `gradsync run`, which other commands that run trials share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace gradsync::session {

struct RunOptions {
  std::string plan;
  std::vector<std::string> overrides;  // "key=value", from --set and its shorthands
  std::string out;                     // empty: results/runs/<plan>_<UTC time>_<commit>
  std::string weights;
  std::string data;
  std::string launcher = "auto";  // or "none": the launcher's environment is not looked at
  int ranks_per_node = 0;         // of tasks that host a node; 0: as the environment says
  double join_timeout_s = 300;    // until every task has joined
  std::string interface;          // of this host, for its ranks; "": as the environment says
  std::string started_by;         // the outside launcher that made the topology; "": none did
  bool takes_turns = false;       // the ranks are an arm's, and wait for their trials
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool quiet = false;
  bool json = false;
};

// Throws ConfigError if --resume or --force is given without --out.
void check_directory_flags(const RunOptions& options);

// Returns the plan with every override applied, and validated (validate_plan.h).
// Errors: ConfigError.
plan::Plan checked_plan(const RunOptions& options);

// Returns the arguments that give this plan to another gradsync: its file, as found from here,
// every override, --weights and --data.   Errors: ConfigError if there is no such plan.
std::vector<std::string> plan_arguments(const RunOptions& options);

// Throws EnvironmentError if this build or this machine does not have the plan's device.
void require_device(const plan::Plan& plan);

}  // namespace gradsync::session
