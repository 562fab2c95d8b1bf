// What leader and agents say, as it comes out of the connection.
#include "harness/launch/agent_messages.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;

// One of each, in the order of the variant, with values that no default has.
std::vector<LeaderMessage> of_the_leader() {
  Topology topology;
  topology.nodes = 3;
  topology.ranks_per_node = 5;
  return {Refusal{"a stranger"},
          AskClock{7},
          StartRanks{2, topology, "10.0.0.1", 4, false, {{"NAME", "value"}}},
          ToRank{3, {{"say", "launch"}}},
          StopRanks{2},
          EndOfJob{6}};
}

std::vector<AgentMessage> of_an_agent() {
  return {
      Hello{1, "host1", "kernel", "job 7", {{"commit", "abc"}}, {0, 2}, {0, 1}, 1.5, 1 << 30, ""},
      ClockReading{7, 1'234'567'890'123},
      Stopped{2},
      RankSaid{2, 3, {{"event", "ready"}}},
      RankExited{2, 3, 4},
      RankKilled{2, 3, 9},
      Standings{2, {{3, 1, 4, 2, 5, 7, 6, 1'000'000'000'000, 'S'}}},
      Unstartable{2, "no room"}};
}

// Through the wire and back: the same message of the same kind, each of its kind alone.
template <typename Message, typename Read>
void expect_survive(const std::vector<Message>& messages, const Read& read) {
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>) << "one of each";
  for (std::size_t kind = 0; kind < messages.size(); ++kind) {
    ASSERT_EQ(messages[kind].index(), kind);
    const json line = to_json(messages[kind]);
    const Message back = read(json::parse(line.dump()));
    EXPECT_EQ(back.index(), kind) << line;
    EXPECT_EQ(to_json(back), line);
  }
}

TEST(AgentMessages, SurviveTheConnection) {
  expect_survive(of_the_leader(), leader_message);
  expect_survive(of_an_agent(), [](const json& line) { return agent_message(line, "task 1"); });
}

TEST(AgentMessages, KeepWhatTheySay) {
  const auto start = std::get<StartRanks>(leader_message(to_json(of_the_leader()[2])));
  EXPECT_EQ(start.topology.nodes, 3);
  EXPECT_EQ(start.topology.ranks_per_node, 5);
  EXPECT_FALSE(start.pin);
  EXPECT_EQ(start.environment.at("NAME"), "value");
  const auto standings = std::get<Standings>(agent_message(to_json(of_an_agent()[6]), "task 1"));
  EXPECT_EQ(standings.ranks.at(0).age_ns, 1'000'000'000'000);
  EXPECT_EQ(standings.ranks.at(0).state, 'S');
}

TEST(AgentMessages, OfTheOtherDirectionAreNone) {
  for (const AgentMessage& message : of_an_agent()) {
    EXPECT_THROW(leader_message(to_json(message)), InternalError);
  }
}

}  // namespace
}  // namespace gradsync::launch
