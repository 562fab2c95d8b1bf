// A topology file: how many nodes, how many ranks on each, and what links them.
//
//   {"schema": "gradsync.topology/1", "nodes": 2, "ranks_per_node": 1,
//    "inter_node": {"rate": "1Gbps"}, "intra_node": null}
//
// A rate is the line rate of each node's (or, intra_node, each rank's) link, as on an Ethernet
// card's label: TCP's payload is 1448/1514 = 95.6 % of it. null: no shaped link, the host's
// loopback.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gradsync::launch {

struct Topology {
  std::string name;
  std::string about;
  int nodes = 1;
  int ranks_per_node = 2;
  std::optional<double> inter_node_bits_per_s;  // unset: unshaped
  std::optional<double> intra_node_bits_per_s;

  int world_size() const { return nodes * ranks_per_node; }
  int node_of(int rank) const { return rank / ranks_per_node; }
  int local_rank_of(int rank) const { return rank % ranks_per_node; }
  // True where ranks need network namespaces of their own to run on this one machine.
  bool needs_namespaces() const { return nodes > 1 || intra_node_bits_per_s.has_value(); }
};

// Returns the topology of benchmarks/topologies/NAME.json, or of the file NAME, or, for a bare
// "NxR" without a file, N nodes of R ranks with unshaped links. Every rate is divided by `scale`.
// Errors: ConfigError naming the file and field, or the topologies there are.
Topology read_topology(const std::string& name, const std::string& directory, int scale = 1);

// Names of the topologies in `directory`, sorted.
std::vector<std::string> list_topologies(const std::string& directory);

}  // namespace gradsync::launch
