// The cluster on one machine, with real namespaces and real traffic.
#include "harness/launch/fabric.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "harness/base/errors.h"
#include "harness/launch/link_shape.h"
#include "harness/launch/namespaces.h"
#include "in_child.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kAttempts = 4;  // a busy machine may spoil some of them

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

// The measurement of an attempt that came within 3 % of what the rate should carry, or of the last.
json good_self_test(const Fabric& fabric, double payload) {
  json measured;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    measured = fabric.self_test(0.6);
    const double got = measured.at("measured_payload_bits_per_s");
    if (std::abs(got / payload - 1) <= 0.03) break;
  }
  return measured;
}

void expect_rate(const Fabric& fabric, double rate_bits_per_s) {
  const double payload = 1448.0 / 1514.0 * rate_bits_per_s;
  const json measured = good_self_test(fabric, payload);
  EXPECT_DOUBLE_EQ(measured.at("rate_bits_per_s").get<double>(), rate_bits_per_s);
  EXPECT_NEAR(measured.at("payload_bits_per_s").get<double>(), payload, 1);
  EXPECT_NEAR(measured.at("measured_payload_bits_per_s").get<double>() / payload, 1, 0.03)
      << measured;
}

std::string network_of(const Fabric& fabric, int rank) {
  return in_child([&] {
    if (const int error = fabric.enter(rank); error != 0) return std::to_string(error);
    std::array<char, 64> name{};
    const ssize_t size = ::readlink("/proc/self/ns/net", name.data(), name.size());
    return std::string(name.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  });
}

std::set<std::string> own_interfaces() {
  std::set<std::string> names;
  struct if_nameindex* const all = ::if_nameindex();
  for (auto* entry = all; entry != nullptr && entry->if_index != 0; ++entry) {
    names.insert(entry->if_name);
  }
  ::if_freenameindex(all);
  return names;
}

TEST(Loopback, IsTheNetworkOfOneUnshapedNode) {
  const auto fabric = make_fabric(cluster(1, 2, {}));
  EXPECT_EQ(fabric->endpoint(1).address, "127.0.0.1");
  EXPECT_EQ(fabric->endpoint(1).interface, "lo");
  EXPECT_EQ(fabric->enter(1), 0);
  EXPECT_TRUE(fabric->self_test(0.1).is_null());
}

TEST_F(FabricTest, TwoNodesCarryTheRateAndLittleForFree) {
  const auto fabric = make_fabric(cluster(2, 1, 200e6));
  expect_rate(*fabric, 200e6);
  const json measured = good_self_test(*fabric, payload_bits_per_s(200e6));
  EXPECT_EQ(measured.at("congestion_control"), "reno");
  EXPECT_LT(measured.at("free_burst_bytes").get<double>(), 20 * 1024) << measured;
  EXPECT_GT(measured.at("round_trip_s").get<double>(), 0);
  EXPECT_LT(measured.at("round_trip_s").get<double>(), 0.01);
}

TEST_F(FabricTest, FourNodesReachEachOther) {
  const auto fabric = make_fabric(cluster(4, 1, 100e6));
  expect_rate(*fabric, 100e6);
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
  const auto shared = make_fabric(cluster(2, 2, 100e6));
  EXPECT_EQ(network_of(*shared, 0), network_of(*shared, 1));
  EXPECT_NE(network_of(*shared, 1), network_of(*shared, 2));
  EXPECT_EQ(shared->endpoint(1).node, 0);
  EXPECT_EQ(shared->endpoint(2).node, 1);

  const auto apart = make_fabric(cluster(1, 2, {}, 400e6));
  EXPECT_NE(network_of(*apart, 0), network_of(*apart, 1));
  expect_rate(*apart, 400e6);
}

TEST_F(FabricTest, BothRatesMeetBetweenNodesOfShapedRanks) {
  const auto fabric = make_fabric(cluster(2, 2, 100e6, 400e6));
  expect_rate(*fabric, 100e6);
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(try_to_connect(*fabric, 0, rank), "") << rank;
    EXPECT_NE(network_of(*fabric, rank), network_of(*fabric, rank - 1));
  }
}

TEST_F(FabricTest, NodesWithoutARateAreStillNodes) {
  const auto fabric = make_fabric(cluster(2, 1, {}));
  EXPECT_TRUE(fabric->self_test(0.1).is_null());
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
    const double payload = payload_bits_per_s(200e6);
    const json measured = good_self_test(*fabric, payload);
    const double ratio = measured.at("measured_payload_bits_per_s").get<double>() / payload;
    return std::abs(ratio - 1) <= 0.03 ? "carried" : measured.dump();
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

// What iperf3, which others trust, gets over the same link in one second; 0 where it failed.
double iperf3_bits_per_s(const Fabric& fabric) {
  const std::string program = find_program("iperf3");
  const auto run = [&](int rank, const char* output, std::vector<const char*> arguments) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int file = ::open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (fabric.enter(rank) != 0 || ::dup2(file, 1) < 0) ::_exit(1);
      arguments.push_back(nullptr);
      ::execv(program.c_str(), const_cast<char**>(arguments.data()));
      ::_exit(1);
    }
    return child;
  };
  const std::string output = testing::TempDir() + "gradsync_iperf3.json";
  const std::string address = fabric.endpoint(0).address;
  const pid_t server = run(0, "/dev/null", {"iperf3", "-s", "-1"});
  ::usleep(300'000);
  wait_for_exit(
      run(1, output.c_str(), {"iperf3", "-c", address.c_str(), "-t", "1", "-O", "1", "-J"}));
  ::kill(server, SIGTERM);
  wait_for_exit(server);
  std::ifstream file(output);
  const json report = json::parse(file, nullptr, false);
  ::unlink(output.c_str());
  const json::json_pointer received("/end/sum_received/bits_per_second");
  return report.is_object() && report.contains(received) ? report.at(received).get<double>() : 0;
}

TEST_F(FabricTest, AgreesWithIperf3) {
  if (find_program("iperf3").empty()) GTEST_SKIP() << "iperf3 is not installed";
  const auto fabric = make_fabric(cluster(2, 1, 200e6));
  double ours = 0;
  double theirs = 1;
  for (int attempt = 0; attempt < kAttempts && std::abs(ours / theirs - 1) > 0.02; ++attempt) {
    theirs = iperf3_bits_per_s(*fabric);
    ours = fabric->self_test(0.6).at("measured_payload_bits_per_s");
  }
  EXPECT_NEAR(ours / theirs, 1, 0.02) << "iperf3 " << theirs << ", self-test " << ours;
}

}  // namespace
}  // namespace gradsync::launch
