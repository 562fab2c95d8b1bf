// The leading task and its agents over loopback: agents are threads here, ranks real processes.
// Covers: agent.cpp, newcomers.cpp.
#include "harness/launch/agents.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/launch/agent.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/tcp.h"
#include "tests/paths.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Kind = RankEvent::Kind;

constexpr double kLongestS = 60;  // for what takes milliseconds, on a busy machine too
const json kIdentity = {{"commit", "abc"}, {"plan", {{"steps", 8}}}};

// Another host's clock: this one's, `ahead_ns` later.
class ShiftedClock : public Clock {
 public:
  explicit ShiftedClock(std::int64_t ahead_ns) : ahead_ns_(ahead_ns) {}
  std::int64_t now_ns() const override { return steady_clock().now_ns() + ahead_ns_; }
  void sleep_until_ns(std::int64_t deadline_ns) const override {
    steady_clock().sleep_until_ns(deadline_ns - ahead_ns_);
  }

 private:
  std::int64_t ahead_ns_;
};

TaskPlace place_of(int task, int tasks, int ranks) {
  TaskPlace place;
  place.launcher = "test";
  place.run_id = "today";
  place.task = place.node = task;
  place.tasks = place.nodes = tasks;
  place.ranks = place.ranks_per_node = ranks;
  place.first_rank = task * ranks;
  return place;
}

// One task per node; agents in threads, which end with the job.
class Job {
 public:
  Job(int tasks, int ranks)
      : listener_(listen_on(0)), port_(bound_port(listener_.get())), tasks_(tasks), ranks_(ranks) {}
  int port() const { return port_; }

  void add_agent(int task, const json& identity = kIdentity, const Clock& clock = steady_clock(),
                 const std::string& run_id = "today") {
    const int port = port_;
    endings_.push_back(std::async(std::launch::async, [=, this, &clock]() -> std::string {
      try {
        AgentOptions options{place_of(task, tasks_, ranks_),
                             identity,
                             {test::path_of("launch_test_rank")},
                             "",
                             kLostAfterS};
        options.place.run_id = run_id;
        return std::to_string(run_agent(connect_to("127.0.0.1", port, kLongestS), options, clock));
      } catch (const std::exception& error) {
        return error.what();
      }
    }));
  }

  Agents& lead(double timeout_s = kLongestS) {
    agents_ = std::make_unique<Agents>(std::move(listener_), place_of(0, tasks_, ranks_), kIdentity,
                                       timeout_s);
    return *agents_;
  }

  // How agent number `index`, as added, ended: its exit status, or what it threw.
  std::string ending(std::size_t index) { return endings_.at(index).get(); }

 private:
  UniqueFd listener_;
  int port_;
  int tasks_;
  int ranks_;
  std::vector<std::future<std::string>> endings_;
  std::unique_ptr<Agents> agents_;  // goes first: agents end when their leader does
};

RankEvent next(RankGroup& group) {
  const auto event = group.next_event(kLongestS);
  if (!event) throw std::runtime_error("nothing happened");
  return *event;
}

TEST(Agents, EveryRankOfEveryTaskHasItsPlace) {
  Job job(2, 2);
  job.add_agent(0);
  job.add_agent(1);
  Agents& agents = job.lead();
  {
    RemoteRanks ranks(agents, {{}, {{"GRADSYNC_TEST_EXTRA", "42"}}});
    EXPECT_EQ(ranks.world_size(), 4);
    ranks.send_all({{"do", "place"}});
    std::map<int, json> places;
    while (places.size() < 4) {
      const RankEvent event = next(ranks);
      ASSERT_EQ(event.kind, Kind::Message);
      places[event.rank] = event.message;
    }
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(places[rank].at("rank"), rank);
      EXPECT_EQ(places[rank].at("local_rank"), rank % 2);
      EXPECT_EQ(places[rank].at("node"), rank / 2);
      EXPECT_EQ(places[rank].at("world_size"), 4);
      EXPECT_EQ(places[rank].at("master_address"), "127.0.0.1");
      EXPECT_EQ(places[rank].at("interface"), "");
      EXPECT_EQ(places[rank].at("extra"), "42");
    }
  }
  agents.end(3);
  EXPECT_EQ(job.ending(0), "3");
  EXPECT_EQ(job.ending(1), "3");
}

TEST(Agents, ADeadRankIsAnEventAndTheNextGroupIsWhole) {
  Job job(2, 1);
  job.add_agent(0);
  job.add_agent(1);
  Agents& agents = job.lead();
  {
    RemoteRanks ranks(agents, {});
    ranks.send(1, {{"do", "progress"}, {"step", 5}});
    ranks.send(1, {{"do", "die"}, {"signal", SIGKILL}});
    const RankEvent event = next(ranks);
    EXPECT_EQ(event.kind, Kind::Killed);
    EXPECT_EQ(event.rank, 1);
    EXPECT_EQ(event.signal, SIGKILL);
    EXPECT_EQ(ranks.progress(1).step, 5) << "where it was by then";
    EXPECT_FALSE(ranks.running(1));
    EXPECT_TRUE(ranks.running(0));
  }
  RemoteRanks ranks(agents, {});
  ranks.send(1, {{"do", "exit"}, {"code", 7}});
  const RankEvent event = next(ranks);
  EXPECT_EQ(event.kind, Kind::Exited);
  EXPECT_EQ(event.exit_code, 7);
}

TEST(Agents, PagesArriveWithinASecond) {
  Job job(1, 1);
  job.add_agent(0);
  RemoteRanks ranks(job.lead(), {});
  ranks.send(0, {{"do", "progress"}, {"step", 5}});
  const std::int64_t until_ns = steady_clock().now_ns() + nanoseconds(kLongestS);
  while (ranks.progress(0).step != 5 && steady_clock().now_ns() < until_ns) ranks.next_event(0.1);
  EXPECT_EQ(ranks.progress(0).step, 5);
  EXPECT_NE(ranks.process_state(0), 0);
}

TEST(Agents, CarriesMegabytes) {
  Job job(1, 1);
  job.add_agent(0);
  RemoteRanks ranks(job.lead(), {});
  ranks.send(0, {{"do", "flood"}, {"bytes", 1 << 20}, {"count", 8}});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(next(ranks).message.at("i"), i);
}

TEST(Agents, AnotherPlanIsRefusedBeforeTheFirstRankAndEveryTaskIsTold) {
  Job job(2, 1);
  json other = kIdentity;
  other["plan"]["steps"] = 9;
  job.add_agent(0);
  job.add_agent(1, other);
  const auto refusal = AllOf(HasSubstr("task 1 on"), HasSubstr("plan/steps is 9 there and 8 here"));
  try {
    job.lead();
    FAIL() << "two plans in one job";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), refusal);
  }
  EXPECT_THAT(job.ending(1), refusal);
}

// What a leader says who waits so long for three tasks, of which only task 1 comes.
std::string complaint_about_two_tasks(double timeout_s) {
  Job job(3, 1);
  job.add_agent(1);
  try {
    job.lead(timeout_s);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "went on without two tasks";
}

TEST(Agents, AMissingTaskIsNamed) {
  std::string complaint;
  double timeout_s = 0.25;
  do {  // on a busy machine task 1 may be late, too
    timeout_s *= 2;
    complaint = complaint_about_two_tasks(timeout_s);
  } while (complaint.starts_with("task 0, 1, 2 of 3") && timeout_s < kLongestS);
  EXPECT_THAT(complaint,
              HasSubstr(fmt::format("task 0, 2 of 3 did not join within {} s", timeout_s)));
}

TEST(Agents, TwoTasksWithOneNumberAreRefused) {
  Job job(2, 1);
  job.add_agent(1);
  job.add_agent(1);
  EXPECT_THROW(job.lead(), ConfigError);
}

TEST(Agents, AStrangerAtThePortIsIgnored) {
  UniqueFd listener = listen_on(0);
  const int port = bound_port(listener.get());
  const UniqueFd stranger = connect_to("127.0.0.1", port, kLongestS);
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::write(stranger.get(), text.data(), text.size()), std::ssize(text));
  EXPECT_THROW(Agents(std::move(listener), place_of(0, 1, 1), kIdentity, 0.5), EnvironmentError);
}

// Connections to a leader's port of those that are no tasks.
class Strangers {
 public:
  explicit Strangers(int port) : port_(port) {}
  void say(const std::string& text) {
    const UniqueFd& stranger = connections_.emplace_back(connect_to("127.0.0.1", port_, kLongestS));
    // Who writes too much is cut off, at some byte.
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count =
          ::send(stranger.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EAGAIN) {
        pollfd wait{stranger.get(), POLLOUT, 0};
        ::poll(&wait, 1, 1000);
      } else if (count < 0) {
        return;
      } else {
        sent += static_cast<std::size_t>(count);
      }
    }
  }

 private:
  int port_;
  std::vector<UniqueFd> connections_;
};

TEST(Agents, StrangersNeitherEndNorDelayNorSwellAJob) {
  Job job(1, 1);
  auto strangers = std::async(std::launch::async, [&job] {
    Strangers all(job.port());
    all.say("\xff\xfe\n");
    all.say("[1, 2]\n");
    all.say("{\"hello\": 3}\n");
    all.say("{\"hello\": {\"task\": \"0\"}}\n");
    all.say(std::string(100'000, '[') + "\n");
    all.say(std::string(std::size_t{64} << 20, 'x'));
    for (int i = 0; i < 400; ++i) all.say("");  // and never another word
    job.add_agent(0);
    return all;  // they stay
  });
  const std::int64_t begin_ns = steady_clock().now_ns();
  Agents& agents = job.lead();
  // One silent one after the other would take a day.
  EXPECT_LT(seconds(steady_clock().now_ns() - begin_ns), kLongestS);
  const RemoteRanks ranks(agents, {});
  EXPECT_EQ(ranks.world_size(), 1);
}

TEST(Agents, ATaskOfAnotherStartIsTurnedAwayAndTheJobGoesOn) {
  Job job(1, 1);
  job.add_agent(0, kIdentity, steady_clock(), "yesterday");
  auto told = std::async(std::launch::async, [&job] {
    const std::string why = job.ending(0);
    job.add_agent(0);
    return why;
  });
  job.lead();
  EXPECT_THAT(told.get(),
              HasSubstr("belongs to another start of a job, today, and this one to yesterday"));
}

TEST(Agents, AnOtherClocksOffsetIsFoundWithinItsBound) {
  constexpr std::int64_t kAheadNs = 1'234'567'890'123;
  const ShiftedClock ahead(kAheadNs);
  Job job(2, 1);
  job.add_agent(0);
  job.add_agent(1, kIdentity, ahead);
  const json clocks = job.lead().clocks();
  const auto check = [](const json& clock, double truth_s) {
    const double error_s = clock.at("error_s").get<double>();
    EXPECT_GT(error_s, 0);
    EXPECT_LT(error_s, 10);  // the quickest of many questions; two minutes would hide the offset
    EXPECT_NEAR(clock.at("offset_s").get<double>(), truth_s, error_s);
  };
  check(clocks.at(0), 0);
  check(clocks.at(1), seconds(kAheadNs));
}

// A task that is held up until its first answer is too late, as a busy machine may do it.
void answer_late(int port) {
  JsonLines leader(connect_to("127.0.0.1", port, kLongestS), "the leader");
  leader.send(to_json(Hello{0, "slow", "slow", "today", kIdentity, {}, {}, {}, {}, ""}));
  std::vector<int> pings;
  bool held_up = true;
  while (leader.is_open()) {
    pollfd wait{leader.fd(), POLLIN, 0};
    ::poll(&wait, 1, 1000);
    for (const json& line : leader.read()) {
      const LeaderMessage message = leader_message(line);
      if (const auto* ping = std::get_if<AskClock>(&message)) pings.push_back(ping->number);
    }
    held_up = held_up && pings.size() < 2;  // the second comes when the first was given up
    if (held_up) continue;
    for (const int ping : pings) leader.send(to_json(ClockReading{ping, steady_clock().now_ns()}));
    pings.clear();
  }
}

TEST(Agents, AnAnswerThatComesTooLateIsNotTakenForTheNext) {
  UniqueFd listener = listen_on(0);
  auto task = std::async(std::launch::async, answer_late, bound_port(listener.get()));
  {
    Agents agents(std::move(listener), place_of(0, 1, 1), kIdentity, kLongestS);
    const json clock = agents.clocks().at(0);
    ASSERT_TRUE(clock.at("offset_s").is_number()) << clock;
    EXPECT_LE(std::abs(clock.at("offset_s").get<double>()), clock.at("error_s").get<double>());
  }
  task.get();
}

TEST(Tcp, NobodyAtThePortIsSaidWithinTheDeadline) {
  const UniqueFd listener = listen_on(0);
  const int port = bound_port(listener.get());
  EXPECT_THROW(listen_on(port), EnvironmentError);
  try {
    // The port of a socket that is bound and does not listen refuses every connection.
    connect_to("127.0.0.1", 1, 0.3);
    FAIL() << "somebody listens at port 1";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("within 0.3 s")));
  }
  EXPECT_THROW(connect_to("no-such-host.invalid", 1, 0.3), EnvironmentError);
}

}  // namespace
}  // namespace gradsync::launch
