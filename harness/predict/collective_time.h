// How long a collective takes that has the network to itself, in closed form.
//
//   ring        all_reduce: 2 (n - 1) steps; in each of them every rank sends bytes / n to the next
//   tree        all_reduce: 2 log2(nodes) messages deep; every rank sends 2 (n - 1) / n of the
//   bytes two-level   all_reduce: reduce_scatter inside a node, all_reduce of each rank's part
//   across
//               nodes, all_gather inside a node
//
// A ring through all ranks crosses each node's link once in each direction, so that its ranks do
// not contend for it. As many rings as a node has ranks, each across nodes, share the link.
//
// gloo's all_gather sends each share in two halves, the second one when its receiver has allowed
// it. With two ranks, that message travels on the connection that carries the receiver's own share
// to this rank. A rank that is late by more than a message takes sends it behind its first half,
// and ends half a share later than the wire could have. Measurements show 1.50 to 1.53 times the
// wire's time between two ranks and 1.15 to 1.19 among four, whichever rank is late and whether by
// 20 or by 100 ms, and 1.01 if none is (8 MiB at 200 Mbit/s). A late rank stays late in the next
// collective.
//
// Sources: Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of
// Workstations", 2009; Sanders, Speck and Träff, "Two-tree Algorithms for Full Bandwidth Broadcast,
// Reduction and Scan", 2009; Thakur, Rabenseifner and Gropp, "Optimization of Collective
// Communication Operations in MPICH", 2005.
#pragma once

#include "harness/predict/network.h"

namespace gradsync::predict {

constexpr double kGlooPause = 0.5;  // a Network's gather_pause

enum class Operation { AllReduce, ReduceScatter, AllGather, Broadcast };

// Which ranks take part. AcrossNodes: one of each node, and all such groups at once.
enum class Group { World, WithinNode, AcrossNodes };

// The parts of a collective's seconds.
struct CollectiveTime {
  double wire_s = 0;     // bytes at the link's rate
  double latency_s = 0;  // messages that wait for each other
  double host_s = 0;
  double processor_s = 0;  // meanwhile, of the processor that computes: no part of the total

  double total_s() const { return wire_s + latency_s + host_s; }
  CollectiveTime& operator+=(const CollectiveTime& other);
};

int ranks_in(const Network& network, Group group);

// Returns the time of `operation` on `bytes` of the whole message: what an all_reduce sums, an
// all_gather results in, a reduce_scatter is given. 0 in a group of one rank.
CollectiveTime collective_time(const Network& network, Group group, Operation operation,
                               double bytes);

}  // namespace gradsync::predict
