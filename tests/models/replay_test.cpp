#include "models/replay.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace gradsync::models {
namespace {

using Kind = PassEvent::Kind;

// Layers "input" (no parameters), "a" (two of one module) and "b", in float32.
Profile recorded_profile() {
  Profile profile;
  profile.layers = {{"input", 0, 0, {}},
                    {"m.a", 0, 0, {{"m.a.weight", {10}}, {"m.a.bias", {5}}}},
                    {"m.b", 0, 0, {{"m.b.weight", {20}}}}};
  MemoryProfile& memory = profile.memory.emplace();
  memory.dtype = "float32";
  memory.parameters = {{"m.a.weight", {10}}, {"m.a.bias", {5}}, {"m.b.weight", {20}}};
  memory.modules = {{"", "Model"}, {"m", "Block"}, {"m.a", "Linear"}, {"m.b", "Linear"}};
  memory.forward = {{Kind::Enter, 0},         {Kind::Enter, 1},          {Kind::Hold, 0, 100, 70},
                    {Kind::Enter, 2},         {Kind::Hold, 0, 400, 250}, {Kind::Leave, 2},
                    {Kind::Hold, 0, 30, -20}, {Kind::Enter, 3},          {Kind::Hold, 0, 90, 90},
                    {Kind::Leave, 3}};
  memory.backward_first = {{Kind::Enter, 3},           {Kind::Hold, 0, 200, 30},
                           {Kind::Gradient, 2, 0, 80}, {Kind::Hold, 0, 100, -150},
                           {Kind::Gradient, 1, 0, 20}, {Kind::Hold, 0, 50, 10},
                           {Kind::Gradient, 0, 0, 40}, {Kind::Hold, 0, 500, -140}};
  return profile;
}

// How far the memory of one script, after others, rose above the level before all, and where it
// ended.
struct Held {
  std::int64_t high = 0;
  std::int64_t end = 0;
  bool operator==(const Held&) const = default;
};
void PrintTo(const Held& held, std::ostream* out) {
  *out << "high " << held.high << ", end " << held.end;
}

Held play(const MemoryScript& script, std::vector<std::int64_t>& held) {
  const auto sum = [&] { return std::accumulate(held.begin(), held.end(), std::int64_t{0}); };
  Held seen{sum(), 0};
  for (const MemoryEvent& event : script.events()) {
    if (event.kind == MemoryEvent::Kind::Hold) {
      held.push_back(event.bytes);
    } else {
      EXPECT_EQ(held.back(), event.bytes) << "the last held goes first";
      held.pop_back();
    }
    seen.high = std::max(seen.high, sum());
  }
  seen.end = sum();
  return seen;
}

TEST(Replay, EachLayerRisesAndEndsAsRecorded) {
  const auto replays = replay_of(recorded_profile(), 1);
  ASSERT_EQ(replays.size(), 3);
  std::vector<std::int64_t> held;
  EXPECT_EQ(play(replays[0].forward, held), (Held{100, 70}));
  EXPECT_EQ(play(replays[1].forward, held), (Held{470, 300})) << "and what follows in its block";
  EXPECT_EQ(play(replays[2].forward, held), (Held{390, 390}));
  EXPECT_EQ(play(replays[2].backward, held), (Held{590, 340})) << "80 more are the gradient";
  EXPECT_EQ(play(replays[1].backward, held), (Held{440, 140})) << "80 + 20 + 40 are";
  EXPECT_EQ(play(replays[0].backward, held), (Held{640, 0}));
}

TEST(Replay, NamesMayHaveSlashesForDots) {
  Profile profile = recorded_profile();
  const auto dotted = replay_of(profile, 1);
  for (ProfileLayer& layer : profile.layers) {
    for (ProfileTensor& tensor : layer.parameters) std::ranges::replace(tensor.name, '.', '/');
  }
  const auto slashed = replay_of(profile, 1);
  for (std::size_t i = 0; i < dotted.size(); ++i) {
    EXPECT_EQ(dotted[i].backward.events().size(), slashed[i].backward.events().size());
    EXPECT_EQ(dotted[i].forward.events().size(), slashed[i].forward.events().size());
  }
}

TEST(Replay, WhatStaysForeverGoesWithTheLastGradient) {
  Profile profile = recorded_profile();
  profile.memory->backward_first.back().net = -100;
  const auto replays = replay_of(profile, 1);
  std::vector<std::int64_t> held;
  for (std::size_t i = 0; i < 3; ++i) play(replays[i].forward, held);
  for (std::size_t i = 3; i-- > 0;) play(replays[i].backward, held);
  EXPECT_TRUE(held.empty());
}

TEST(Replay, NothingWhereThereIsNoMemoryOrOfAnotherSize) {
  EXPECT_TRUE(replay_of(recorded_profile(), 2).empty());
  Profile profile = recorded_profile();
  profile.memory->dtype = "bfloat16";
  EXPECT_TRUE(replay_of(profile, 1).empty());
  profile.memory.reset();
  EXPECT_TRUE(replay_of(profile, 1).empty());
}

}  // namespace
}  // namespace gradsync::models
