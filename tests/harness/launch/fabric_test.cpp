// The cluster on one machine, with real namespaces and real traffic.
//
// Shapes are read back from the kernel, to the bit. Traffic shows that they act: a link never
// carries more than its rate; how much less is the machine's affair, and link_rate_test's.
// Covers: iproute.cpp, link_test.cpp, namespaces.cpp.
#include "harness/launch/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "harness/base/errors.h"
#include "harness/launch/link_shape.h"
#include "harness/launch/namespaces.h"
#include "in_child.h"
#include "kernel_links.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Shares of what the rate should carry. More is possible by the bucket that a busy machine may hide
// from the self-test: 0.3 % of what it sends at 100 Mbit/s. Less is possible on a slow machine, but
// a link that carries less than a fifth has another rate, or is measured in other units.
constexpr double kMostShare = 1.01;
constexpr double kLeastShare = 0.2;

Topology cluster(int nodes, int ranks_per_node, std::optional<double> inter,
                 std::optional<double> intra = {}) {
  Topology topology;
  topology.name = "test";
  topology.nodes = nodes;
  topology.ranks_per_node = ranks_per_node;
  topology.inter_node_bits_per_s = inter;
  topology.intra_node_bits_per_s = intra;
  return topology;
}

class FabricTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

void expect_carries(const std::optional<LinkCarried>& measured, double rate_bits_per_s) {
  const double payload = 1448.0 / 1514.0 * rate_bits_per_s;
  ASSERT_TRUE(measured);
  EXPECT_DOUBLE_EQ(measured->rate_bits_per_s, rate_bits_per_s);
  EXPECT_NEAR(measured->payload_bits_per_s, payload, 1);
  const double share = measured->measured_payload_bits_per_s / payload;
  EXPECT_LT(share, kMostShare);
  EXPECT_GT(share, kLeastShare);
}

// The links that the kernel shapes now are `count[device]` of each device, of this rate each, and
// batches on hosts suit the rate of the path.
void expect_shaped(const std::map<std::string, int>& count,
                   const std::map<std::string, double>& rate, double path_rate) {
  std::map<std::string, int> found;
  for (const KernelLink& link : kernel_links()) {
    if (link.device == "eth0") {
      EXPECT_EQ(link.gso_max_bytes, shape_link(path_rate).gso_max_bytes);
    }
    if (link.shaping.empty()) continue;
    ++found[link.device];
    ASSERT_TRUE(rate.contains(link.device)) << link.device << " is shaped";
    const LinkShape shape = shape_link(rate.at(link.device));
    EXPECT_EQ(link.shaping, "tbf");
    EXPECT_EQ(link.rate_bits_per_s, shape.rate_bits_per_s) << link.device;
    // The kernel keeps the bucket and the queue as times, in ticks.
    EXPECT_NEAR(link.burst_bytes / shape.burst_bytes, 1, 0.01) << link.device;
    EXPECT_NEAR(link.latency_s, 0.1, 0.001) << link.device;
  }
  EXPECT_EQ(found, count);
}

void expect_hosts_shaped(int hosts, double rate_bits_per_s) {
  expect_shaped({{"eth0", hosts}}, {{"eth0", rate_bits_per_s}}, rate_bits_per_s);
}

std::string network_of(const Fabric& fabric, int rank) {
  return in_child([&] {
    if (const int error = fabric.enter(rank); error != 0) return std::to_string(error);
    std::array<char, 64> name{};
    const ssize_t size = ::readlink("/proc/self/ns/net", name.data(), name.size());
    return std::string(name.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  });
}

// The interfaces of this process's own network that have a name as a fabric gives it. Others come
// and go with what else runs on the machine.
std::set<std::string> own_interfaces() {
  std::set<std::string> names;
  struct if_nameindex* const all = ::if_nameindex();
  for (auto* entry = all; entry != nullptr && entry->if_index != 0; ++entry) {
    const std::string name = entry->if_name;
    if (name == "br0" || name == "uplink" || name.starts_with("port")) names.insert(name);
  }
  ::if_freenameindex(all);
  return names;
}

TEST(Loopback, IsTheNetworkOfOneUnshapedNode) {
  const auto fabric = make_fabric(cluster(1, 2, {}));
  EXPECT_EQ(fabric->endpoint(1).address, "127.0.0.1");
  EXPECT_EQ(fabric->endpoint(1).interface, "");
  EXPECT_EQ(fabric->enter(1), 0);
  EXPECT_FALSE(fabric->self_test(0.1));
}

TEST_F(FabricTest, TwoNodesCarryTheRateAndLittleForFree) {
  const auto fabric = make_fabric(cluster(2, 1, 200e6));
  EXPECT_EQ(fabric->endpoint(1).interface, "eth0");
  expect_hosts_shaped(2, 200e6);
  const auto measured = fabric->self_test(0.6);
  expect_carries(measured, 200e6);
  EXPECT_EQ(measured->congestion_control, "reno");
  // Delays hide free bytes and never add to them.
  EXPECT_LE(measured->free_burst_bytes, shape_link(200e6).burst_bytes);
  EXPECT_GT(measured->round_trip_s, 0);
}

TEST_F(FabricTest, FourNodesReachEachOther) {
  const auto fabric = make_fabric(cluster(4, 1, 100e6));
  expect_hosts_shaped(4, 100e6);
  expect_carries(fabric->self_test(0.6), 100e6);
  std::set<std::string> addresses;
  std::set<std::string> networks;
  for (int rank = 0; rank < 4; ++rank) {
    addresses.insert(fabric->endpoint(rank).address);
    networks.insert(network_of(*fabric, rank));
    EXPECT_EQ(try_to_connect(*fabric, rank, (rank + 1) % 4), "") << rank;
    EXPECT_EQ(try_to_connect(*fabric, rank, rank), "") << rank;
  }
  EXPECT_EQ(addresses.size(), 4U);
  EXPECT_EQ(networks.size(), 4U);
}

TEST_F(FabricTest, RanksOfANodeShareItsNetworkUnlessTheirLinkIsShaped) {
  auto shared = make_fabric(cluster(2, 2, 100e6));
  expect_hosts_shaped(2, 100e6);
  EXPECT_EQ(network_of(*shared, 0), network_of(*shared, 1));
  EXPECT_NE(network_of(*shared, 1), network_of(*shared, 2));
  EXPECT_EQ(shared->endpoint(1).node, 0);
  EXPECT_EQ(shared->endpoint(2).node, 1);
  shared.reset();

  const auto apart = make_fabric(cluster(1, 2, {}, 400e6));
  EXPECT_NE(network_of(*apart, 0), network_of(*apart, 1));
  expect_hosts_shaped(2, 400e6);
  expect_carries(apart->self_test(0.6), 400e6);
}

TEST_F(FabricTest, BothRatesMeetBetweenNodesOfShapedRanks) {
  const auto fabric = make_fabric(cluster(2, 2, 100e6, 400e6));
  expect_shaped({{"eth0", 4}, {"uplink", 2}}, {{"eth0", 400e6}, {"uplink", 100e6}}, 100e6);
  expect_carries(fabric->self_test(0.6), 100e6);
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(try_to_connect(*fabric, 0, rank), "") << rank;
    EXPECT_NE(network_of(*fabric, rank), network_of(*fabric, rank - 1));
  }
}

TEST_F(FabricTest, NodesWithoutARateAreStillNodes) {
  const auto fabric = make_fabric(cluster(2, 1, {}));
  for (const KernelLink& link : kernel_links()) EXPECT_EQ(link.shaping, "") << link.device;
  EXPECT_FALSE(fabric->self_test(0.1));
  EXPECT_NE(network_of(*fabric, 0), network_of(*fabric, 1));
  EXPECT_EQ(try_to_connect(*fabric, 0, 1), "");
}

TEST_F(FabricTest, LeavesTheMachinesOwnNetworkAlone) {
  const std::set<std::string> before = own_interfaces();
  {
    const auto fabric = make_fabric(cluster(3, 1, 100e6));
    EXPECT_EQ(own_interfaces(), before);
  }
  EXPECT_EQ(own_interfaces(), before);
}

TEST_F(FabricTest, WorksForUsersWithoutPrivilege) {
  if (const std::string reason = why_no_unprivileged_namespaces(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const std::string answer = in_child([]() -> std::string {
    become_nobody();
    if (!NamespaceSet(1).through_user_namespace()) return "no user namespace was made";
    const auto fabric = make_fabric(cluster(2, 1, 200e6));
    expect_hosts_shaped(2, 200e6);
    expect_carries(fabric->self_test(0.6), 200e6);
    return HasFailure() ? "see above" : "carried";
  });
  EXPECT_EQ(answer, "carried");
}

TEST_F(FabricTest, WhatIproute2RefusesIsToldInItsWords) {
  const NamespaceSet namespaces(1);
  try {
    namespaces.run_batch(0, "tc", "qdisc add dev lo root nosuchqueue\n");
    FAIL() << "accepted";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("qdisc kind is unknown"));
    EXPECT_THAT(error.what(), HasSubstr("modprobe sch_tbf"));
  }
  EXPECT_THROW(namespaces.run_batch(0, "no_such_program", ""), EnvironmentError);
}

// Compares the best of a few attempts of both programs, in turns. Two programs that measure one
// link differ by per cents, and by more if others compete for the processor, but not by a factor.
TEST_F(FabricTest, AgreesWithIperf3) {
  if (find_program("iperf3").empty()) GTEST_SKIP() << "iperf3 is not installed";
  const auto fabric = make_fabric(cluster(2, 1, 200e6));
  double ours = 0;
  double theirs = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    theirs = std::max(theirs, iperf3_bits_per_s(*fabric));
    ours = std::max(ours, fabric->self_test(0.6)->measured_payload_bits_per_s);
    if (std::min(ours, theirs) > 0.97 * std::max(ours, theirs)) break;
  }
  EXPECT_LT(std::max(ours, theirs), 2 * std::min(ours, theirs))
      << "iperf3 " << theirs << ", self-test " << ours;
}

}  // namespace
}  // namespace gradsync::launch
