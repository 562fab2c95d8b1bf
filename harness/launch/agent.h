// A task of an outside launcher, as the leading task's agent on its host: it starts the ranks of
// its host on request, carries messages between them and the leader, and outlives them, so that the
// plan continues after a rank has died. Every task has one, also the leader. Their messages:
// agent_messages.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/launch/task_place.h"
#include "harness/launch/tcp.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

struct AgentOptions {
  TaskPlace place;
  // What must be the same for every task: {"commit", "torch", "plan", ...}.
  nlohmann::json identity;
  std::vector<std::string> rank_command;  // argv of a rank
  std::string address;  // numeric, of the interface that was chosen for its ranks; "": none was
  double lost_after_s = kLostAfterS;  // a leader whose host is silent for this long is gone
};

// Serves the leader at the other end of `connection` until it says that the job is over; returns
// the exit status it gives. Blocks. `clock` is this host's.
// Errors: ConfigError where the leader refuses this task; CommError when the leader is gone.
int run_agent(UniqueFd connection, const AgentOptions& options,
              const Clock& clock = steady_clock());

}  // namespace gradsync::launch
