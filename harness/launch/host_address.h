// At which address do ranks of other hosts reach those of this one?
//
// Not always at the one over which this host's agent speaks to the leading task. Debian and Ubuntu
// write "127.0.1.1 HOST" into a host's own /etc/hosts, so that MASTER_ADDR is a loopback there, and
// nowhere else. An address that an agent of another host reached can be reached by all hosts.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/task_place.h"

namespace gradsync::launch {

// Numeric addresses of the two ends of an agent's connection to the leading task.
struct Reach {
  std::string to;      // the leader's
  std::string from;    // the agent's
  std::string chosen;  // of the interface that was chosen for this host; "": none was
};

// Returns whether a numeric address is a loopback, which only this host reaches.
bool is_loopback(const std::string& address);

// Returns the leading host's address for the ranks of all hosts. `reaches`: one per task, of which
// the first is on that host. Where all are on it, any address will do, a loopback too.
std::string leader_address(const std::vector<Reach>& reaches);

// Returns the address of the ranks of one agent, given the leader's for all.
std::string ranks_address(const Reach& reach, const std::string& leader);

// Returns which of this host's `interfaces` to use; "" if none is chosen. First match wins:
// `option`, GLOO_SOCKET_IFNAME (names, of which the first counts), NCCL_SOCKET_IFNAME (names if it
// begins with "=", else beginnings of names; "^..." excludes, and chooses none). Errors:
// ConfigError where the host has no such interface.
std::string chosen_interface(const std::string& option, const Environment& environment,
                             const std::vector<std::string>& interfaces);

}  // namespace gradsync::launch
