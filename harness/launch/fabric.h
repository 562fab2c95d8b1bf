// One machine as a cluster: a network namespace per node (per rank where the intra-node rate is
// set) behind rate-shaped veth links to one bridge.
//
// The namespaces have no names: they exist only as file descriptors of this process and as the
// network of the ranks inside them, so they vanish with the last of these, even after kill -9 of
// the launcher. Unprivileged users get them through a user namespace.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/launch/topology.h"

namespace gradsync::launch {

// Where one rank runs: its network and the address its peers reach it at.
struct Endpoint {
  int rank = 0;
  int node = 0;
  std::string address;    // IPv4 in text form
  std::string interface;  // "eth0" in a network made here; "": in the host's own, as it is
};

// Measurements of a shaped link.
struct LinkCarried {
  double rate_bits_per_s = 0;     // of the line, as the topology says
  double payload_bits_per_s = 0;  // what that rate should carry
  double measured_payload_bits_per_s = 0;
  double round_trip_s = 0;
  double free_burst_bytes = 0;  // let through beyond the rate after idle time
  std::string congestion_control;
};
void to_json(nlohmann::json& out, const LinkCarried& link);

class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual Endpoint endpoint(int rank) const = 0;

  // Moves the calling process into the network of `rank`. For the child between fork and exec.
  // Async-signal-safe. Returns 0 or an errno.
  virtual int enter(int rank) const = 0;

  // Measures what the shaped link between the first two nodes (of one node: ranks) really carries,
  // with as much plain TCP as its rate carries in `duration_s`. Returns nothing where that link is
  // not shaped. Blocks for the duration and a third of a second, longer where the link carries less
  // than its rate. Run it while no rank runs: it competes for the link. Errors: EnvironmentError.
  virtual std::optional<LinkCarried> self_test(double duration_s) const = 0;
};

// Returns the network for `topology`. Where it needs no namespaces, that is the host's loopback.
// Cost: 20 ms for two nodes, 80 ms for four.
// Errors: EnvironmentError with the remedy where namespaces or shaping are forbidden or missing.
std::unique_ptr<Fabric> make_fabric(const Topology& topology);

}  // namespace gradsync::launch
