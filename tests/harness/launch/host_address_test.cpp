// Covers: tcp.cpp.
#include "harness/launch/host_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/launch/tcp.h"

namespace gradsync::launch {
namespace {

using testing::HasSubstr;

// Debian's /etc/hosts: the leading host's name is a loopback there, and an address elsewhere.
const Reach kLeadersOwn{"127.0.1.1", "127.0.0.1", ""};
const Reach kBeside = kLeadersOwn;  // another task of that host
const Reach kElsewhere{"10.0.0.1", "10.0.0.2", ""};

TEST(HostAddress, WhatOtherHostsReachedIsTheLeaders) {
  EXPECT_EQ(leader_address({kLeadersOwn, kBeside, kElsewhere}), "10.0.0.1");
  EXPECT_EQ(leader_address({{"10.0.0.1", "10.0.0.1", ""}, kElsewhere}), "10.0.0.1");
}

TEST(HostAddress, OnOneHostALoopbackWillDo) {
  EXPECT_EQ(leader_address({kLeadersOwn, kBeside}), "127.0.0.1");
  EXPECT_EQ(leader_address({{"::1", "::1", ""}}), "::1");
}

TEST(HostAddress, RanksBesideTheLeaderHaveItsAddressAndOthersTheirOwn) {
  EXPECT_EQ(ranks_address(kLeadersOwn, "10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(ranks_address(kBeside, "10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(ranks_address(kElsewhere, "10.0.0.1"), "10.0.0.2");
}

TEST(HostAddress, AChosenOneGoesBeforeAll) {
  Reach own = kLeadersOwn;
  own.chosen = "192.168.0.1";
  EXPECT_EQ(leader_address({own, kElsewhere}), "192.168.0.1");
  EXPECT_EQ(ranks_address(own, "10.0.0.1"), "192.168.0.1");
  Reach elsewhere = kElsewhere;
  elsewhere.chosen = "192.168.0.2";
  EXPECT_EQ(leader_address({kLeadersOwn, elsewhere}), "10.0.0.1") << "that is another host's";
  EXPECT_EQ(ranks_address(elsewhere, "10.0.0.1"), "192.168.0.2");
}

std::string chosen(const std::string& option, const Environment& environment) {
  return chosen_interface(option, environment, {"lo", "eth0", "eth1", "ib0"});
}

TEST(ChosenInterface, TheOptionGoesBeforeGloosVariableAndThatBeforeNccls) {
  const Environment both{{"GLOO_SOCKET_IFNAME", "eth1"}, {"NCCL_SOCKET_IFNAME", "ib"}};
  EXPECT_EQ(chosen("eth0", both), "eth0");
  EXPECT_EQ(chosen("", both), "eth1");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", "ib"}}), "ib0");
  EXPECT_EQ(chosen("", {}), "");
  EXPECT_EQ(chosen("", {{"GLOO_SOCKET_IFNAME", ""}}), "");
}

TEST(ChosenInterface, ReadsTheVariablesAsTheirLibrariesDo) {
  EXPECT_EQ(chosen("", {{"GLOO_SOCKET_IFNAME", "eth1,eth0"}}), "eth1");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", "eth"}}), "eth0");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", "=eth1"}}), "eth1");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", "wlan,ib"}}), "ib0");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", "^eth,lo"}}), "");
  EXPECT_EQ(chosen("", {{"NCCL_SOCKET_IFNAME", ",ib"}}), "ib0") << "nothing is no beginning";
}

std::string refusal(const std::string& option, const Environment& environment) {
  try {
    return "took " + chosen(option, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(ChosenInterface, OneThatIsNotThereIsRefusedWithThoseThatAre) {
  EXPECT_EQ(refusal("eth9", {}),
            "--interface: got 'eth9', expected a network interface of this host: lo, eth0, eth1, "
            "ib0");
  EXPECT_THAT(refusal("eth", {}), HasSubstr("got 'eth'")) << "names are whole";
  EXPECT_THAT(refusal("", {{"GLOO_SOCKET_IFNAME", "eth"}}), HasSubstr("GLOO_SOCKET_IFNAME: got"));
  EXPECT_THAT(refusal("", {{"NCCL_SOCKET_IFNAME", "=eth"}}), HasSubstr("NCCL_SOCKET_IFNAME: got"));
}

}  // namespace

namespace {

TEST(Interfaces, HaveAddresses) {
  const auto names = interface_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "lo"), 1);
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("no-such-interface"), "");
}

}  // namespace

}  // namespace gradsync::launch
