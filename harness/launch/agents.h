// The leading task's view of the job: an agent for every task, and through them all ranks.
//
// Task 0 leads. It starts an agent of its own like the others', waits until every task has joined,
// makes sure that all were started with the same plan and program, and compares clocks. From then
// on a launch is RemoteRanks, which the coordinator cannot tell from children of its own.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/agent_messages.h"
#include "harness/launch/clock_offset.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/local_ranks.h"
#include "harness/launch/newcomers.h"
#include "harness/launch/task_place.h"
#include "harness/launch/tcp.h"

namespace gradsync::launch {

class Agents {
 public:
  // Waits at `listener` until every task of the job has joined, `timeout_s` at most. A task of
  // another start of a job (TaskPlace::run_id) is refused, and connections that are not from a task
  // are ignored.
  // Errors: ConfigError naming what differs if a task runs another plan, program or torch (that
  // task gets the error too); EnvironmentError naming the tasks that are missing.
  // `lost_after_s`: a task whose host is silent for this long is gone (tcp.h).
  Agents(UniqueFd listener, const TaskPlace& place, const nlohmann::json& identity,
         double timeout_s, double lost_after_s = kLostAfterS);

  // Tells every agent that the job is over, with the exit status to end with.
  void end(int exit_status);

  // Returns every node's clock against the leader's, from now and from when it joined; unset with a
  // reason where the task is gone. Takes a millisecond per host; not while ranks run.
  std::vector<HostClock> clocks();

  // Return how many processors the ranks of all tasks have, and how many cores these belong to.
  // Every machine counts with the share of the one that has the fewest for its ranks. Tasks that
  // run on one kernel are on one machine, also in containers of their own.
  int usable_cpus() const;
  int cores() const;
  // Returns the least memory, in bytes, that the host of any task had left when it joined.
  std::optional<std::int64_t> least_memory_available_bytes() const;
  // Returns the lowest CPU quota of any task, in cores; nothing: there is none.
  std::optional<double> least_cpu_quota() const;
  const TaskPlace& place() const { return place_; }

 private:
  friend class RemoteRanks;

  struct Task {
    Hello hello;
    Reach reach;
    JsonLines lines;
    ClockOffset joined;
    std::string name() const;  // "task 1 on host1"
  };

  void admit(Newcomer newcomer);
  [[noreturn]] void refuse(Task& newcomer, const std::string& why);
  ClockOffset measure_clock(Task& task);
  // Waits for the next messages of any task until `timeout_s`.
  void wait(double timeout_s);
  Task& task_of_rank(int rank);
  // Returns the least value of the tasks that have one.
  template <typename Number>
  std::optional<Number> least(std::optional<Number> Hello::*of_task) const;
  int least_share(std::vector<int> Hello::*of_task) const;
  std::string leader_address() const;

  TaskPlace place_;
  nlohmann::json identity_;
  double lost_after_s_;
  std::vector<std::unique_ptr<Task>> tasks_;  // by number; null: not joined yet
  int groups_ = 0;                            // started so far
};

// One launch on the ranks of all agents.
class RemoteRanks : public RankGroup {
 public:
  // Tells every agent to start its ranks. It uses environment and threads_per_rank of `spawn`.
  // Errors: CommError where a task is gone.
  RemoteRanks(Agents& agents, const SpawnOptions& spawn);
  ~RemoteRanks() override;

  std::optional<RankEvent> next_event(double timeout_s) override;
  void send(int rank, const nlohmann::json& message) override;
  const RankProgress& progress(int rank) const override { return *progress_.at(std::size_t(rank)); }
  char process_state(int rank) const override { return states_.at(std::size_t(rank)); }
  bool running(int rank) const override { return running_.at(std::size_t(rank)); }
  const Topology& topology() const override { return topology_; }

 private:
  void take(const AgentMessage& message);
  void take(const Standing& standing);
  template <typename Said>
  void note(const Said& said, RankEvent event);
  void note_lost();
  bool anything_runs() const;

  Agents& agents_;
  Topology topology_;
  int group_;
  std::vector<std::unique_ptr<RankProgress>> progress_;
  std::vector<char> states_;
  std::vector<bool> running_;
  std::vector<RankEvent> events_;
};

}  // namespace gradsync::launch
