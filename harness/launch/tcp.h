// TCP connections between the tasks of a job, with deadlines.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

// Listens on every address of this host; port 0: any free one.
// Errors: EnvironmentError where the port is taken.
UniqueFd listen_on(int port);

// Returns the port a socket is bound to.
int bound_port(int fd);

// Connects, and retries until `timeout_s`: the other side may start later.
// Errors: EnvironmentError if the host has no address or does not answer in time.
UniqueFd connect_to(const std::string& host, int port, double timeout_s);

// Accepts one connection until `timeout_s`; returns an empty one if the time passed.
UniqueFd accept_within(int listener, double timeout_s);

// A connection whose other side no longer answers, link or host gone, ends by itself after this
// many seconds by default.
inline constexpr double kLostAfterS = 30;

// Makes the connection end after `seconds` of silence from the other side's kernel, at least 2 s. A
// peer that is merely busy or stopped is not silent.
void end_when_lost(int fd, double seconds);

// Return the numeric address of a connection's own end, or of the other; "" where it has none.
std::string own_address(int fd);
std::string peer_address(int fd);

// Returns the numeric address of a network interface, IPv4 where it has one; "" where it has none.
std::string address_of_interface(const std::string& interface);
// Returns the names of all network interfaces here, each once.
std::vector<std::string> interface_names();

}  // namespace gradsync::launch
