// Real processes: started, spoken to, killed.
// Covers: control_channel.cpp, rank_process.cpp.
#include "harness/launch/local_ranks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "in_child.h"
#include "tests/paths.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Kind = RankEvent::Kind;

constexpr double kPatience = 60;  // for what takes milliseconds, on a busy machine too

Topology ranks(int count, int nodes = 1) {
  Topology topology;
  topology.name = "test";
  topology.nodes = nodes;
  topology.ranks_per_node = count / nodes;
  return topology;
}

struct Launched {
  explicit Launched(const Topology& topology,
                    SpawnOptions options = {{test::path_of("launch_test_rank")}, {}})
      : fabric(make_fabric(topology)), group(topology, *fabric, options) {}

  RankEvent next() {
    const auto event = group.next_event(kPatience);
    if (!event) throw std::runtime_error("nothing happened");
    return *event;
  }

  std::unique_ptr<Fabric> fabric;
  LocalRanks group;
};

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(LocalRanks, TellsEachRankItsPlace) {
  SpawnOptions options{{test::path_of("launch_test_rank")}, {{"GRADSYNC_TEST_EXTRA", "42"}}};
  options.threads_per_rank = 3;
  Launched launched(ranks(3), options);
  launched.group.send_all({{"do", "place"}});
  std::map<int, json> places;
  for (int i = 0; i < 3; ++i) {
    const RankEvent event = launched.next();
    ASSERT_EQ(event.kind, Kind::Message);
    places[event.rank] = event.message;
  }
  for (int rank = 0; rank < 3; ++rank) {
    const json expected = {{"rank", rank},
                           {"local_rank", rank},
                           {"world_size", 3},
                           {"node", 0},
                           {"address", "127.0.0.1"},
                           {"interface", ""},
                           {"master_address", "127.0.0.1"},
                           {"cpus", 1},
                           {"leads_its_group", true},
                           {"omp_num_threads", "3"},
                           {"extra", "42"}};
    EXPECT_EQ(places[rank], expected);
  }
  EXPECT_EQ(launched.group.label(1), "rank 1/3 node0");
}

TEST(LocalRanks, DeliversMessagesInOrderThenTheExitCode) {
  Launched launched(ranks(1));
  for (int i = 0; i < 50; ++i) launched.group.send(0, {{"do", "echo"}, {"text", i}});
  launched.group.send(0, {{"do", "exit"}, {"code", 3}});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(launched.next().message, json({{"echo", i}}));
  const RankEvent end = launched.next();
  EXPECT_EQ(end.kind, Kind::Exited);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_FALSE(launched.group.running(0));
  EXPECT_EQ(launched.group.process_state(0), 0);
}

TEST(LocalRanks, LastWordsComeBeforeTheDeathThatFollowsThem) {
  Launched launched(ranks(1));
  launched.group.send(0, {{"do", "flood"}, {"bytes", 10}, {"count", 200}});
  launched.group.send(0, {{"do", "die"}, {"signal", SIGKILL}});
  // Let it be dead before the first look: then both wait for us at once.
  ASSERT_TRUE(eventually([&] { return launched.group.process_state(0) == 'Z'; }));
  for (int i = 0; i < 200; ++i) {
    const RankEvent event = launched.next();
    ASSERT_EQ(event.kind, Kind::Message) << i;
    EXPECT_EQ(event.message.at("i"), i);
  }
  const RankEvent end = launched.next();
  EXPECT_EQ(end.kind, Kind::Killed);
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST(LocalRanks, AKilledRankLeavesTheOthersRunning) {
  Launched launched(ranks(2));
  ASSERT_EQ(::kill(launched.group.pid(1), SIGKILL), 0);
  const RankEvent end = launched.next();
  EXPECT_EQ(end.kind, Kind::Killed);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_TRUE(launched.group.running(0));
  launched.group.send_all({{"do", "echo"}, {"text", "still here"}});
  EXPECT_EQ(launched.next().message.at("echo"), "still here");
}

TEST(LocalRanks, AStoppedRankShowsInItsState) {
  Launched launched(ranks(1));
  ASSERT_EQ(::kill(launched.group.pid(0), SIGSTOP), 0);
  EXPECT_TRUE(eventually([&] { return launched.group.process_state(0) == 'T'; }));
  EXPECT_FALSE(launched.group.next_event(0.05).has_value());
  ASSERT_EQ(::kill(launched.group.pid(0), SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return launched.group.process_state(0) == 'S'; }));
}

TEST(LocalRanks, CarriesMegabytesBothWaysAtOnce) {
  Launched launched(ranks(2));
  const std::string large(1 << 20, 'y');
  launched.group.send_all({{"do", "flood"}, {"bytes", 1 << 20}, {"count", 4}});
  // The ranks are now blocked in writing and read nothing; sending to them must not block us.
  for (int i = 0; i < 4; ++i) launched.group.send_all({{"do", "measure"}, {"text", large}});
  std::map<int, int> floods;
  std::map<int, int> sizes;
  for (int i = 0; i < 16; ++i) {
    const RankEvent event = launched.next();
    ASSERT_EQ(event.kind, Kind::Message);
    if (event.message.contains("i")) {
      EXPECT_EQ(event.message.at("i"), floods[event.rank]++);
      EXPECT_EQ(event.message.at("text").get<std::string>().size(), 1U << 20);
    } else {
      EXPECT_EQ(event.message.at("size"), 1 << 20);
      ++sizes[event.rank];
    }
  }
  EXPECT_EQ(floods, (std::map<int, int>{{0, 4}, {1, 4}}));
  EXPECT_EQ(sizes, (std::map<int, int>{{0, 4}, {1, 4}}));
}

TEST(LocalRanks, SharesAPageWithEachRank) {
  Launched launched(ranks(2));
  EXPECT_EQ(launched.group.progress(1).trial, -1);
  EXPECT_EQ(describe(launched.group.progress(1)), "starting");
  launched.group.send(1, {{"do", "progress"}, {"step", 12}});
  EXPECT_TRUE(eventually([&] { return launched.group.progress(1).step == 12; }));
  EXPECT_EQ(launched.group.progress(0).step, 0);
}

TEST(LocalRanks, RefusesToGuessAtGarbage) {
  Launched launched(ranks(1));
  launched.group.send(0, {{"do", "garbage"}});
  EXPECT_THROW(launched.next(), InternalError);
}

TEST(LocalRanks, AProgramThatCannotStartIsNamed) {
  try {
    Launched launched(ranks(2), {{"/no/such/program"}, {}});
    FAIL() << "started";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/program"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

TEST(LocalRanks, EndsEvenWhatWillNotEnd) {
  const std::size_t files_before = open_files();
  std::vector<pid_t> pids;
  {
    Launched launched(ranks(3));
    for (int rank = 0; rank < 3; ++rank) pids.push_back(launched.group.pid(rank));
    launched.group.send(0, {{"do", "ignore_term"}});
    launched.group.send(0, {{"do", "echo"}, {"text", "deaf"}});
    EXPECT_EQ(launched.next().message.at("echo"), "deaf");
    ASSERT_EQ(::kill(pids[1], SIGSTOP), 0);
  }  // a group that waited for these two would wait for ever
  for (const pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), -1) << pid;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
  EXPECT_EQ(open_files(), files_before);
}

TEST(LocalRanks, WaitsForNothingWhenNothingRuns) {
  Launched launched(ranks(1));
  launched.group.send(0, {{"do", "exit"}, {"code", 0}});
  EXPECT_EQ(launched.next().kind, Kind::Exited);
  launched.group.send(0, {{"do", "echo"}, {"text", "anyone?"}});
  constexpr double kWait = 300;
  const std::int64_t start_ns = steady_clock().now_ns();
  EXPECT_FALSE(launched.group.next_event(kWait).has_value());
  EXPECT_LT(seconds(steady_clock().now_ns() - start_ns), kWait / 2) << "it waited in vain";
}

TEST(LocalRanks, PutsRanksIntoTheirNodesNetworks) {
  if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  Launched launched(ranks(2, 2));
  launched.group.send_all({{"do", "place"}});
  for (int i = 0; i < 2; ++i) {
    const RankEvent event = launched.next();
    EXPECT_EQ(event.message.at("address"), launched.fabric->endpoint(event.rank).address);
    EXPECT_EQ(event.message.at("master_address"), launched.fabric->endpoint(0).address);
    EXPECT_EQ(event.message.at("interface"), "eth0");
    EXPECT_EQ(event.message.at("node"), event.rank);
  }
  EXPECT_NE(
      std::filesystem::read_symlink("/proc/" + std::to_string(launched.group.pid(0)) + "/ns/net"),
      std::filesystem::read_symlink("/proc/self/ns/net"));
}

TEST(LocalRanks, RunsForUsersWithoutPrivilege) {
  if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  if (const std::string reason = why_no_unprivileged_namespaces(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const std::string answer = in_child([]() -> std::string {
    become_nobody();
    // A program that every user may run; the user "nobody" owns the pipe's end.
    Launched launched(ranks(2, 2), {{"/bin/sh", "-c", "exit $((RANK + 5))"}, {}});
    std::string codes(2, '?');
    for (int i = 0; i < 2; ++i) {
      const RankEvent event = launched.next();
      codes[static_cast<std::size_t>(event.rank)] = static_cast<char>('0' + event.exit_code);
    }
    return codes;
  });
  EXPECT_EQ(answer, "56");
}

}  // namespace
}  // namespace gradsync::launch
