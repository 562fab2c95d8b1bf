#include "harness/launch/agent_messages.h"

#include "harness/base/messages.h"
#include "harness/launch/topology_fields.h"

namespace gradsync::launch {

constexpr auto fields_of(const Refusal*) {
  return std::tuple{constant("say", "refused"), field("why", &Refusal::why)};
}

constexpr auto fields_of(const AskClock*) {
  return std::tuple{constant("say", "ask clock"), field("number", &AskClock::number)};
}

constexpr auto fields_of(const StartRanks*) {
  return std::tuple{constant("say", "start"),
                    GRADSYNC_FIELDS(StartRanks, group, topology, master_address, threads_per_rank,
                                    pin, environment)};
}

constexpr auto fields_of(const ToRank*) {
  return std::tuple{constant("say", "to rank"), GRADSYNC_FIELDS(ToRank, rank, message)};
}

constexpr auto fields_of(const StopRanks*) {
  return std::tuple{constant("say", "stop"), field("group", &StopRanks::group)};
}

constexpr auto fields_of(const EndOfJob*) {
  return std::tuple{constant("say", "end"), field("exit_status", &EndOfJob::exit_status)};
}

constexpr auto fields_of(const Hello*) {
  return std::tuple{constant("say", "hello"),
                    GRADSYNC_FIELDS(Hello, task, host, machine, run_id, identity, cpus, cores,
                                    cpu_quota, memory_available_bytes, address)};
}

constexpr auto fields_of(const ClockReading*) {
  return std::tuple{constant("say", "clock"), GRADSYNC_FIELDS(ClockReading, number, clock_ns)};
}

constexpr auto fields_of(const Stopped*) {
  return std::tuple{constant("say", "stopped"), field("group", &Stopped::group)};
}

constexpr auto fields_of(const RankSaid*) {
  return std::tuple{constant("say", "rank said"), GRADSYNC_FIELDS(RankSaid, group, rank, message)};
}

constexpr auto fields_of(const RankExited*) {
  return std::tuple{constant("say", "rank exited"),
                    GRADSYNC_FIELDS(RankExited, group, rank, exit_code)};
}

constexpr auto fields_of(const RankKilled*) {
  return std::tuple{constant("say", "rank killed"),
                    GRADSYNC_FIELDS(RankKilled, group, rank, signal)};
}

constexpr auto fields_of(const Standing*) {
  return std::tuple{GRADSYNC_FIELDS(Standing, rank, trial, step, micro_batch, activity, collective,
                                    completed, age_ns, state)};
}

constexpr auto fields_of(const Standings*) {
  return std::tuple{constant("say", "standings"), GRADSYNC_FIELDS(Standings, group, ranks)};
}

constexpr auto fields_of(const Unstartable*) {
  return std::tuple{constant("say", "unstartable"), GRADSYNC_FIELDS(Unstartable, group, why)};
}

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
