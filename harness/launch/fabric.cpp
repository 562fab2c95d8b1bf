#include "harness/launch/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/fields.h"
#include "harness/launch/link_shape.h"
#include "harness/launch/link_test.h"
#include "harness/launch/namespaces.h"

namespace gradsync::launch {

namespace {

constexpr const char* kInterface = "eth0";
constexpr const char* kUplink = "uplink";

class LoopbackFabric : public Fabric {
 public:
  explicit LoopbackFabric(const Topology& topology) : topology_(topology) {}
  Endpoint endpoint(int rank) const override {
    return {rank, topology_.node_of(rank), "127.0.0.1", ""};
  }
  int enter(int) const override { return 0; }
  std::optional<LinkCarried> self_test(double) const override { return std::nullopt; }

 private:
  Topology topology_;
};

// Namespace 0 is the switch. Then one per host: a node, or, with an intra-node rate, a rank:
//
//   eth0 --tbf inter--> [switch] <--tbf inter-- eth0                       hosts are nodes
//   eth0 --tbf intra--> [node's bridge] --tbf inter--> [switch] <-- ...    hosts are ranks
//
// Each link is shaped where packets enter it. Traffic that leaves the switch is not shaped again:
// several nodes that send to one together can exceed its rate, which no ring or pairwise collective
// does.
class NamespaceFabric : public Fabric {
 public:
  explicit NamespaceFabric(const Topology& topology)
      : topology_(topology),
        host_per_rank_(topology.intra_node_bits_per_s.has_value()),
        node_bridges_(host_per_rank_ && topology.nodes > 1),
        namespaces_(1 + hosts() + (node_bridges_ ? topology.nodes : 0)) {
    prepare_stack();
    if (node_bridges_) {
      connect(0, topology.nodes, first_bridge(), kUplink);
      for (int node = 0; node < topology.nodes; ++node) configure_bridge(node);
    } else {
      connect(0, hosts(), 1, kInterface);
    }
    for (int host = 0; host < hosts(); ++host) configure_host(host);
  }

  Endpoint endpoint(int rank) const override {
    const int local = host_per_rank_ ? topology_.local_rank_of(rank) : 0;
    const int node = topology_.node_of(rank);
    return {rank, node, fmt::format("10.77.{}.{}", node, local + 1), kInterface};
  }

  int enter(int rank) const override { return namespaces_.enter(namespace_of(rank)); }

  std::optional<LinkCarried> self_test(double duration_s) const override;

 private:
  int hosts() const { return host_per_rank_ ? topology_.world_size() : topology_.nodes; }
  int first_bridge() const { return 1 + hosts(); }
  int namespace_of(int rank) const { return 1 + (host_per_rank_ ? rank : topology_.node_of(rank)); }
  std::optional<double> host_rate() const {
    return host_per_rank_ ? topology_.intra_node_bits_per_s : topology_.inter_node_bits_per_s;
  }
  // The narrower of the two rates that a packet between nodes meets.
  std::optional<double> path_rate() const {
    const auto& inter = topology_.inter_node_bits_per_s;
    if (!inter || !host_per_rank_) return inter ? inter : host_rate();
    return std::min(*inter, *host_rate());
  }

  void prepare_stack();
  void connect(int bridge, int count, int first, const char* device);
  void configure_bridge(int node);
  void configure_host(int host);
  void shape(int index, const char* device, double rate_bits_per_s);

  Topology topology_;
  bool host_per_rank_;
  bool node_bridges_;
  NamespaceSet namespaces_;
};

// Settings before any link exists, so that the links are born with them. Reno, because it is the
// one algorithm that every namespace may choose (others need the host's leave) and, behind a queue
// that TCP waits for, it sustains the line as well as cubic and better than bbr, which probes
// downwards.
void NamespaceFabric::prepare_stack() {
  for (int index = 1; index <= hosts(); ++index) {
    namespaces_.write_settings(
        index, {{"/proc/sys/net/ipv4/tcp_congestion_control", "reno"},
                // Between two synchronizations a connection idles: it must not find its rate anew.
                {"/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0"},
                {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"}});
  }
}

// Puts a bridge into namespace `bridge` and links namespaces first ... first + count - 1 to it.
void NamespaceFabric::connect(int bridge, int count, int first, const char* device) {
  std::string batch = "link add br0 type bridge\nlink set br0 up\n";
  for (int i = 0; i < count; ++i) {
    batch += fmt::format("link add port{} type veth peer name {} netns {}\n", i, device,
                         namespaces_.path(first + i));
    batch += fmt::format("link set port{} master br0 up\n", i);
  }
  namespaces_.run_batch(bridge, "ip", batch);
}

void NamespaceFabric::configure_bridge(int node) {
  const int bridge = first_bridge() + node;
  connect(bridge, topology_.ranks_per_node, 1 + node * topology_.ranks_per_node, kInterface);
  namespaces_.run_batch(bridge, "ip", fmt::format("link set {} master br0 up\n", kUplink));
  if (const auto& rate = topology_.inter_node_bits_per_s) shape(bridge, kUplink, *rate);
}

void NamespaceFabric::configure_host(int host) {
  const int rank = host_per_rank_ ? host : host * topology_.ranks_per_node;
  std::string batch = fmt::format("link set lo up\naddr add {}/16 dev {}\nlink set {} up\n",
                                  endpoint(rank).address, kInterface, kInterface);
  if (const auto rate = path_rate()) {
    batch +=
        fmt::format("link set {} gso_max_size {}\n", kInterface, shape_link(*rate).gso_max_bytes);
  }
  namespaces_.run_batch(1 + host, "ip", batch);
  if (const auto rate = host_rate()) shape(1 + host, kInterface, *rate);
}

void NamespaceFabric::shape(int index, const char* device, double rate_bits_per_s) {
  namespaces_.run_batch(index, "tc", tbf_command(device, shape_link(rate_bits_per_s)));
}

std::optional<LinkCarried> NamespaceFabric::self_test(double duration_s) const {
  const auto rate = path_rate();
  if (!rate || hosts() < 2) return std::nullopt;
  const int peer = topology_.nodes > 1 ? topology_.ranks_per_node : 1;
  LinkTest test;
  test.receiver = namespace_of(0);
  test.sender = namespace_of(peer);
  test.address = endpoint(0).address;
  test.payload_bits_per_s = payload_bits_per_s(*rate);
  test.duration_s = duration_s;
  const LinkMeasurement measured = measure_link(namespaces_, test);
  return LinkCarried{*rate,
                     test.payload_bits_per_s,
                     measured.payload_bits_per_s,
                     measured.round_trip_s,
                     std::max(0.0, measured.free_burst_bytes),
                     measured.congestion_control};
}

}  // namespace

GRADSYNC_FIELDS_OF(LinkCarried, rate_bits_per_s, payload_bits_per_s, measured_payload_bits_per_s,
                   round_trip_s, free_burst_bytes, congestion_control)

void to_json(nlohmann::json& out, const LinkCarried& link) {
  out = write_fields(link);
}

std::unique_ptr<Fabric> make_fabric(const Topology& topology) {
  if (!topology.needs_namespaces()) return std::make_unique<LoopbackFabric>(topology);
  return std::make_unique<NamespaceFabric>(topology);
}

}  // namespace gradsync::launch
