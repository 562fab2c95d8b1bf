// The promise that nothing outlives the program, even after kill -9 of the launcher.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/launch/local_ranks.h"
#include "harness/launch/namespaces.h"
#include "in_child.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

Topology shaped_pair() {
  Topology topology;
  topology.nodes = 2;
  topology.ranks_per_node = 1;
  topology.inter_node_bits_per_s = 1e8;
  return topology;
}

// A launcher with two ranks in two namespaces: writes their pids and networks, then waits for its
// end.
[[noreturn]] void launch_and_wait(int answer_fd, bool unprivileged, const std::string& program) {
  if (unprivileged) become_nobody();
  const Topology topology = shaped_pair();
  const auto fabric = make_fabric(topology);
  const LocalRanks group(topology, *fabric, {{program, "1000"}, {}});
  json answer;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string link = "/proc/" + std::to_string(group.pid(rank)) + "/ns/net";
    answer["pids"].push_back(group.pid(rank));
    answer["networks"].push_back(fs::read_symlink(link).string());
  }
  const std::string text = answer.dump();
  if (::write(answer_fd, text.data(), text.size()) < 0) ::_exit(1);
  for (;;) ::pause();
}

void expect_nothing_survives(bool unprivileged) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  // The ranks' orphans come to us: that one has ended is then seen at once, and exactly.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    try {
      launch_and_wait(pipe[1], unprivileged, "/bin/sleep");
    } catch (const std::exception&) {
    }
    ::_exit(1);
  }
  ::close(pipe[1]);
  std::string text(4096, '\0');
  const ssize_t size = ::read(pipe[0], text.data(), text.size());
  ::close(pipe[0]);
  ASSERT_GT(size, 0) << "the launcher failed";
  const json launched = json::parse(text.substr(0, static_cast<std::size_t>(size)));
  const std::string own_network = fs::read_symlink("/proc/self/ns/net").string();
  for (const std::string network : launched.at("networks")) EXPECT_NE(network, own_network);

  ::kill(launcher, SIGKILL);
  wait_for_exit(launcher);
  for (const pid_t pid : launched.at("pids")) {
    const bool ended = eventually([pid] { return ::waitpid(pid, nullptr, WNOHANG) == pid; });
    EXPECT_TRUE(ended) << "rank " << pid << " outlived its launcher";
    if (!ended) ::kill(pid, SIGKILL);
  }
  // A namespace without a name lives as long as a process or a descriptor in one. All that the
  // launcher started would be our child by now.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
  EXPECT_EQ(errno, ECHILD);
}

TEST(LauncherDeath, TakesRanksAndNamespacesAlong) {
  if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  expect_nothing_survives(false);
}

TEST(LauncherDeath, TakesThemAlongWithoutPrivilegeToo) {
  if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  if (const std::string reason = why_no_unprivileged_namespaces(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  expect_nothing_survives(true);
}

}  // namespace
}  // namespace gradsync::launch
