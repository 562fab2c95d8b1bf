// What the leading task (agents.h) and the agents of all tasks (agent.h) say to each other over
// TCP, one JSON object per line. An agent says Hello first; the leader answers with a Refusal, or
// takes it in.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/launch/topology.h"

namespace gradsync::launch {

// Leader to agent.

struct Refusal {  // not of this job, or the job cannot begin: the agent ends
  std::string why;
};
struct AskClock {  // answered by ClockReading
  int number = 0;
};
struct StartRanks {  // a group of ranks begins; the one before has ended
  int group = 0;     // counts
  Topology topology;
  std::string master_address;
  int threads_per_rank = 1;
  bool pin = true;
  std::map<std::string, std::string> environment;  // beside the agent's own
};
struct ToRank {
  int rank = 0;
  nlohmann::json message;
};
struct StopRanks {  // answered by Stopped
  int group = 0;
};
struct EndOfJob {
  int exit_status = 0;
};
using LeaderMessage = std::variant<Refusal, AskClock, StartRanks, ToRank, StopRanks, EndOfJob>;

// Agent to leader.

struct Hello {
  int task = 0;
  std::string host;
  std::string machine;              // the same for tasks that run on one kernel
  std::string run_id;               // of the start of a job that it belongs to
  nlohmann::json identity;          // what must be the same for every task
  std::vector<int> cpus;            // that its ranks may use
  std::vector<int> cores;           // which core each of them is a hardware thread of
  std::optional<double> cpu_quota;  // in cores, of its control groups
  std::optional<std::int64_t> memory_available_bytes;
  std::string address;  // that was chosen for its ranks; "" where none was
};
struct ClockReading {
  int number = 0;
  std::int64_t clock_ns = 0;
};
struct Stopped {
  int group = 0;
};
struct RankSaid {
  int group = 0;
  int rank = 0;
  nlohmann::json message;
};
struct RankExited {
  int group = 0;
  int rank = 0;
  int exit_code = 0;
};
struct RankKilled {
  int group = 0;
  int rank = 0;
  int signal = 0;
};
struct Standing {  // where a rank is: its RankProgress
  int rank = 0;
  std::int32_t trial = -1;
  std::int32_t step = 0;
  std::int32_t micro_batch = 0;
  std::uint32_t activity = 0;
  std::uint32_t collective = 0;
  std::uint32_t completed = 0;
  // Since it changed, an age, since clocks of two hosts cannot be subtracted; nothing: it never
  // did.
  std::optional<std::int64_t> age_ns;
  int state = 0;  // of the process: 'R', 'S', ...; 0: it is gone
};
struct Standings {  // now and then, and before the report of an ending
  int group = 0;
  std::vector<Standing> ranks;
};
struct Unstartable {
  int group = 0;
  std::string why;
};
using AgentMessage = std::variant<Hello, ClockReading, Stopped, RankSaid, RankExited, RankKilled,
                                  Standings, Unstartable>;

nlohmann::json to_json(const LeaderMessage& message);
nlohmann::json to_json(const AgentMessage& message);

// Errors: InternalError where the line is no such message; `from` says whose it is.
LeaderMessage leader_message(const nlohmann::json& line);
AgentMessage agent_message(const nlohmann::json& line, const std::string& from);

}  // namespace gradsync::launch
