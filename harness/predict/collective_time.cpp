#include "harness/predict/collective_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradsync::predict {
namespace {

constexpr Link kFree{std::numeric_limits<double>::infinity(), 0};

// The slower of what a ring passes through.
Link slowest(const Link& a, const Link& b) {
  return {std::min(a.bytes_per_s, b.bytes_per_s), std::max(a.latency_s, b.latency_s),
          std::max(a.burst_bytes, b.burst_bytes)};
}

Link ring_link(const Network& network, Group group) {
  const Link intra = network.intra.value_or(kFree);
  Link inter = network.inter.value_or(kFree);
  if (group == Group::WithinNode) return intra;
  if (group == Group::AcrossNodes) {
    inter.bytes_per_s /= network.ranks_per_node;
    return inter;
  }
  if (network.nodes == 1) return intra;
  return network.ranks_per_node == 1 ? inter : slowest(intra, inter);
}

// `passes` times around a ring of `ranks`: once for a gather or a scatter, twice for their sum.
// The wire is not used for as long as `pause` of a rank's share takes; after that a burst is free.
CollectiveTime ring_time(const Link& link, const HostCost& host, int ranks, double passes,
                         double bytes, double pause) {
  const double steps = passes * (ranks - 1);
  const double share = bytes / ranks;
  const double paused = std::max(0.0, pause * share - link.burst_bytes);
  return {(steps * share + paused) / link.bytes_per_s, steps * link.latency_s,
          host.collective_s + steps * share * host.per_byte_s,
          steps * share * host.processor_per_byte_s};
}

// Pipelined down a binary tree: small messages are what it is for.
CollectiveTime broadcast_time(const Link& link, const HostCost& host, int ranks, double bytes) {
  return {bytes / link.bytes_per_s, std::ceil(std::log2(ranks)) * link.latency_s,
          host.collective_s + bytes * host.per_byte_s, bytes * host.processor_per_byte_s};
}

CollectiveTime tree_all_reduce(const Network& network, double bytes) {
  const Link intra = network.intra.value_or(kFree);
  const Link inter = network.inter.value_or(kFree);
  const auto share = [](int n) { return 2.0 * (n - 1) / n; };
  const double depth = std::ceil(std::log2(network.nodes));
  const double across = share(network.nodes) * bytes / inter.bytes_per_s;
  const double within = share(network.ranks_per_node) * bytes / intra.bytes_per_s;
  const double messages_s =
      2 * (depth * inter.latency_s + (network.ranks_per_node - 1) * intra.latency_s);
  const double sent = share(network.world_size()) * bytes;
  return {std::max(across, within), messages_s,
          network.host.collective_s + sent * network.host.per_byte_s,
          sent * network.host.processor_per_byte_s};
}

CollectiveTime two_level_all_reduce(const Network& network, double bytes) {
  CollectiveTime time =
      collective_time(network, Group::WithinNode, Operation::ReduceScatter, bytes);
  time += collective_time(network, Group::AcrossNodes, Operation::AllReduce,
                          bytes / network.ranks_per_node);
  time += collective_time(network, Group::WithinNode, Operation::AllGather, bytes);
  return time;
}

double passes_of(const Network& network, Operation operation) {
  const bool twice = operation == Operation::AllReduce ||
                     (operation == Operation::ReduceScatter && network.scatters_by_all_reduce);
  return twice ? 2 : 1;
}

// Where a ring costs nothing inside of a node, it passes the links between nodes alone.
double pause_of(const Network& network, Group group, Operation operation) {
  if (operation != Operation::AllGather) return 0;
  const bool skips_links =
      group == Group::World && network.nodes > 1 && network.ranks_per_node > 1 && !network.intra;
  return skips_links ? 2 * network.gather_pause : network.gather_pause;
}

}  // namespace

CollectiveTime& CollectiveTime::operator+=(const CollectiveTime& other) {
  wire_s += other.wire_s;
  latency_s += other.latency_s;
  host_s += other.host_s;
  processor_s += other.processor_s;
  return *this;
}

int ranks_in(const Network& network, Group group) {
  if (group == Group::World) return network.world_size();
  return group == Group::WithinNode ? network.ranks_per_node : network.nodes;
}

CollectiveTime collective_time(const Network& network, Group group, Operation operation,
                               double bytes) {
  const int ranks = ranks_in(network, group);
  if (ranks == 1) return {};
  if (group == Group::World && operation == Operation::AllReduce && network.nodes > 1) {
    if (network.algorithm == Algorithm::Tree) return tree_all_reduce(network, bytes);
    if (network.algorithm == Algorithm::TwoLevel && network.ranks_per_node > 1) {
      return two_level_all_reduce(network, bytes);
    }
  }
  const Link link = ring_link(network, group);
  if (operation == Operation::Broadcast) return broadcast_time(link, network.host, ranks, bytes);
  return ring_time(link, network.host, ranks, passes_of(network, operation), bytes,
                   pause_of(network, group, operation));
}

}  // namespace gradsync::predict
