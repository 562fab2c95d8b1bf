// Machines that forbid namespaces: each way to forbid them ends in a sentence with the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "harness/launch/fabric.h"
#include "harness/launch/host.h"
#include "in_child.h"

namespace gradsync::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Topology two_nodes() {
  Topology topology;
  topology.nodes = 2;
  topology.ranks_per_node = 1;
  topology.inter_node_bits_per_s = 1e8;
  return topology;
}

bool write_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

TEST(Forbidden, AnExhaustedLimitIsNamed) {
  const std::string answer = in_child([]() -> std::string {
    const uid_t uid = ::geteuid();
    if (::unshare(CLONE_NEWUSER) != 0) return "skip";
    write_text("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
    if (!write_text("/proc/sys/user/max_net_namespaces", "0")) return "skip";
    make_fabric(two_nodes());
    return "made";
  });
  if (answer == "skip") GTEST_SKIP() << "no user namespace to forbid it in";
  EXPECT_THAT(answer, AllOf(HasSubstr("network namespaces cannot be made here"),
                            HasSubstr("user.max_net_namespaces")));
}

TEST(Forbidden, AMissingPermissionIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to lose it in a way that forbids namespaces";
  const std::string answer = in_child([]() -> std::string {
    // The kernel makes no user namespaces for a process whose root directory was changed.
    if (::chroot("/proc") != 0 || ::chdir("/") != 0) return "skip";
    become_nobody();
    make_fabric(two_nodes());
    return "made";
  });
  if (answer == "skip") GTEST_SKIP() << "chroot is forbidden";
  EXPECT_THAT(answer, AllOf(HasSubstr("Operation not permitted"),
                            HasSubstr("allow unprivileged user namespaces")));
}

TEST(Forbidden, OneNodeNeedsNoPermission) {
  Topology topology = two_nodes();
  topology.nodes = 1;
  topology.inter_node_bits_per_s.reset();
  const std::string answer = in_child([&]() -> std::string {
    if (::unshare(CLONE_NEWUSER) == 0) write_text("/proc/sys/user/max_net_namespaces", "0");
    return make_fabric(topology)->endpoint(0).address;
  });
  EXPECT_EQ(answer, "127.0.0.1");
}

TEST(Forbidden, TheHostsDescriptionSaysSo) {
  const std::string answer = in_child([]() -> std::string {
    const uid_t uid = ::geteuid();
    if (::unshare(CLONE_NEWUSER) != 0) return "skip";
    write_text("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
    if (!write_text("/proc/sys/user/max_net_namespaces", "0")) return "skip";
    const Host host = probe_host(0);
    for (const Finding& finding : examine_host(host)) {
      if (finding.severity == Finding::Severity::Fail) return finding.what;
    }
    return "nothing found";
  });
  if (answer == "skip") GTEST_SKIP() << "no user namespace to forbid it in";
  EXPECT_THAT(answer, HasSubstr("network namespaces do not work"));
}

}  // namespace
}  // namespace gradsync::launch
