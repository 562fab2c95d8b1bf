#include "harness/launch/agent_messages.h"

#include "harness/base/messages.h"
#include "harness/launch/topology_fields.h"

namespace gradsync::launch {

GRADSYNC_MESSAGE(Refusal, "say", "refused", why)
GRADSYNC_MESSAGE(AskClock, "say", "ask clock", number)
GRADSYNC_MESSAGE(StartRanks, "say", "start", group, topology, master_address, threads_per_rank, pin,
                 environment)
GRADSYNC_MESSAGE(ToRank, "say", "to rank", rank, message)
GRADSYNC_MESSAGE(StopRanks, "say", "stop", group)
GRADSYNC_MESSAGE(EndOfJob, "say", "end", exit_status)
GRADSYNC_MESSAGE(Hello, "say", "hello", task, host, machine, run_id, identity, cpus, cores,
                 cpu_quota, memory_available_bytes, address)
GRADSYNC_MESSAGE(ClockReading, "say", "clock", number, clock_ns)
GRADSYNC_MESSAGE(Stopped, "say", "stopped", group)
GRADSYNC_MESSAGE(RankSaid, "say", "rank said", group, rank, message)
GRADSYNC_MESSAGE(RankExited, "say", "rank exited", group, rank, exit_code)
GRADSYNC_MESSAGE(RankKilled, "say", "rank killed", group, rank, signal)
GRADSYNC_FIELDS_OF(Standing, rank, trial, step, micro_batch, activity, collective, completed,
                   age_ns, state)
GRADSYNC_MESSAGE(Standings, "say", "standings", group, ranks)
GRADSYNC_MESSAGE(Unstartable, "say", "unstartable", group, why)

nlohmann::json to_json(const LeaderMessage& message) {
  return std::visit([](const auto& said) { return write_fields(said); }, message);
}

nlohmann::json to_json(const AgentMessage& message) {
  return std::visit([](const auto& said) { return write_fields(said); }, message);
}

LeaderMessage leader_message(const nlohmann::json& line) {
  return read_message<LeaderMessage>(line, "the leading task");
}

AgentMessage agent_message(const nlohmann::json& line, const std::string& from) {
  return read_message<AgentMessage>(line, from);
}

}  // namespace gradsync::launch
