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
                    field("group", &StartRanks::group),
                    field("topology", &StartRanks::topology),
                    field("master_address", &StartRanks::master_address),
                    field("threads_per_rank", &StartRanks::threads_per_rank),
                    field("pin", &StartRanks::pin),
                    field("environment", &StartRanks::environment)};
}

constexpr auto fields_of(const ToRank*) {
  return std::tuple{constant("say", "to rank"), field("rank", &ToRank::rank),
                    field("message", &ToRank::message)};
}

constexpr auto fields_of(const StopRanks*) {
  return std::tuple{constant("say", "stop"), field("group", &StopRanks::group)};
}

constexpr auto fields_of(const EndOfJob*) {
  return std::tuple{constant("say", "end"), field("exit_status", &EndOfJob::exit_status)};
}

constexpr auto fields_of(const Hello*) {
  return std::tuple{constant("say", "hello"),
                    field("task", &Hello::task),
                    field("host", &Hello::host),
                    field("machine", &Hello::machine),
                    field("run_id", &Hello::run_id),
                    field("identity", &Hello::identity),
                    field("cpus", &Hello::cpus),
                    field("cores", &Hello::cores),
                    field("cpu_quota", &Hello::cpu_quota),
                    field("memory_available_bytes", &Hello::memory_available_bytes),
                    field("address", &Hello::address)};
}

constexpr auto fields_of(const ClockReading*) {
  return std::tuple{constant("say", "clock"), field("number", &ClockReading::number),
                    field("clock_ns", &ClockReading::clock_ns)};
}

constexpr auto fields_of(const Stopped*) {
  return std::tuple{constant("say", "stopped"), field("group", &Stopped::group)};
}

constexpr auto fields_of(const RankSaid*) {
  return std::tuple{constant("say", "rank said"), field("group", &RankSaid::group),
                    field("rank", &RankSaid::rank), field("message", &RankSaid::message)};
}

constexpr auto fields_of(const RankExited*) {
  return std::tuple{constant("say", "rank exited"), field("group", &RankExited::group),
                    field("rank", &RankExited::rank), field("exit_code", &RankExited::exit_code)};
}

constexpr auto fields_of(const RankKilled*) {
  return std::tuple{constant("say", "rank killed"), field("group", &RankKilled::group),
                    field("rank", &RankKilled::rank), field("signal", &RankKilled::signal)};
}

constexpr auto fields_of(const Standing*) {
  return std::tuple{
      field("rank", &Standing::rank),           field("trial", &Standing::trial),
      field("step", &Standing::step),           field("micro_batch", &Standing::micro_batch),
      field("activity", &Standing::activity),   field("collective", &Standing::collective),
      field("completed", &Standing::completed), field("age_ns", &Standing::age_ns),
      field("state", &Standing::state)};
}

constexpr auto fields_of(const Standings*) {
  return std::tuple{constant("say", "standings"), field("group", &Standings::group),
                    field("ranks", &Standings::ranks)};
}

constexpr auto fields_of(const Unstartable*) {
  return std::tuple{constant("say", "unstartable"), field("group", &Unstartable::group),
                    field("why", &Unstartable::why)};
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
