#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/harness/plan/samples.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;

std::vector<Launch> expand_sample(const json& changes = json::object()) {
  json source = sample_plan();
  source.update(changes);
  return expand(parse_plan(source, "p.json"));
}

// Strategies of one round, in the order they run.
std::vector<std::string> strategies_in(const Launch& launch, int round) {
  std::vector<std::string> order;
  for (const Trial& trial : launch.trials) {
    if (trial.round == round) order.push_back(trial.cell.strategy);
  }
  return order;
}

json as_json(const std::vector<Launch>& launches) {
  json all = json::array();
  for (const Launch& launch : launches) {
    for (const Trial& trial : launch.trials) {
      all.push_back({launch.topology, launch.launch, trial.order, trial.round, trial.cell});
    }
  }
  return all;
}

TEST(Expand, LaunchesInterleaveTopologies) {
  const auto launches = expand_sample();
  ASSERT_EQ(launches.size(), 4U);
  const char* topologies[] = {"1x2", "2x1", "1x2", "2x1"};
  const int numbers[] = {0, 0, 1, 1};
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].topology, topologies[i]);
    EXPECT_EQ(launches[i].launch, numbers[i]);
    for (const Trial& trial : launches[i].trials) {
      EXPECT_EQ(trial.cell.topology, topologies[i]);
      EXPECT_EQ(trial.steps, 5);
      EXPECT_EQ(trial.warmup_steps, 3);
    }
  }
}

TEST(Expand, EveryRoundHasEveryCellOnce) {
  for (const Launch& launch : expand_sample()) {
    ASSERT_EQ(launch.trials.size(), 12U);
    for (int round = 0; round < 3; ++round) {
      EXPECT_THAT(
          strategies_in(launch, round),
          testing::UnorderedElementsAre("baseline", "no_sync_improper", "no_sync", "accumulate"));
    }
  }
}

TEST(Expand, RoundsFollowEachOtherAndNumbersCountUp) {
  int order = 0;
  for (const Launch& launch : expand_sample()) {
    int round = 0;
    for (const Trial& trial : launch.trials) {
      EXPECT_EQ(trial.order, order++);
      EXPECT_GE(trial.round, round);
      round = trial.round;
    }
  }
  EXPECT_EQ(order, 48);
}

TEST(Expand, SameSeedSameOrder) {
  EXPECT_EQ(as_json(expand_sample()), as_json(expand_sample()));
  EXPECT_NE(as_json(expand_sample()), as_json(expand_sample({{"seed", 43}})));
  // Seeds beyond 32 bits count too.
  EXPECT_NE(as_json(expand_sample({{"seed", 1}})),
            as_json(expand_sample({{"seed", (1LL << 32) + 1}})));
}

// The two orders were worked out apart from this code, from the standard's text of seed_seq and
// mersenne_twister_engine.
TEST(Expand, OrderIsTheSameOnEveryPlatform) {
  const auto launches = expand_sample();
  EXPECT_THAT(strategies_in(launches[0], 0),
              testing::ElementsAre("no_sync_improper", "baseline", "no_sync", "accumulate"));
  EXPECT_THAT(strategies_in(launches[3], 2),
              testing::ElementsAre("accumulate", "no_sync_improper", "baseline", "no_sync"));
}

TEST(Expand, MoreLaunchesAndRoundsLeaveTheFirstOnesAlone) {
  const auto few = expand_sample();
  const auto many = expand_sample({{"launches", 5}, {"rounds", 7}});
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t i : {0U, 1U, 2U, 3U}) {
      EXPECT_EQ(strategies_in(few[i], round), strategies_in(many[i], round));
    }
  }
}

// Each of the 24 orders comes up about equally often: 4800 rounds, 200 expected, sd 13.8. Drift of
// the machine would otherwise favour a strategy.
TEST(Expand, OrdersAreUniform) {
  const auto launches = expand_sample({{"rounds", 1200}});
  std::map<std::vector<std::string>, int> seen;
  for (const Launch& launch : launches) {
    for (int round = 0; round < 1200; ++round) ++seen[strategies_in(launch, round)];
  }
  ASSERT_EQ(seen.size(), 24U);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 200, 70);
}

TEST(Expand, TotalStepsAreDealtOut) {
  json source = sample_plan();
  source.erase("steps");
  source.update({{"total_steps", 29}, {"launches", 4}, {"rounds", 1}});
  std::map<int, int> by_launch;
  for (const Launch& launch : expand(parse_plan(source, "p.json"))) {
    for (const Trial& trial : launch.trials) by_launch[launch.launch] = trial.steps;
  }
  EXPECT_EQ(by_launch, (std::map<int, int>{{0, 8}, {1, 7}, {2, 7}, {3, 7}}));

  source.update({{"launches", 2}, {"rounds", 3}});
  std::map<std::string, int> by_strategy;
  for (const Launch& launch : expand(parse_plan(source, "p.json"))) {
    if (launch.topology != "1x2") continue;
    for (const Trial& trial : launch.trials) by_strategy[trial.cell.strategy] += trial.steps;
  }
  for (const auto& [strategy, steps] : by_strategy) EXPECT_EQ(steps, 29) << strategy;
}

TEST(Expand, PartsRunOneAfterTheOther) {
  const auto launches = expand(parse_plan(sample_plan_in_parts(), "p.json"));
  ASSERT_EQ(launches.size(), 5U);
  EXPECT_EQ(launches[0].part, "fast");
  for (int launch = 0; launch < 4; ++launch) {
    EXPECT_EQ(launches[launch + 1].part, "slow");
    EXPECT_EQ(launches[launch + 1].launch, launch);
  }
}

TEST(Expand, ScalesAreLaunchedApart) {
  json source = sample_plan();
  source["cells"]["scale"] = {10, 50};
  source["launches"] = 1;
  std::set<std::pair<std::string, int>> networks;
  for (const Launch& launch : expand(parse_plan(source, "p.json"))) {
    EXPECT_TRUE(networks.emplace(launch.topology, launch.scale).second);
    for (const Trial& trial : launch.trials) EXPECT_EQ(trial.cell.scale, launch.scale);
  }
  EXPECT_EQ(networks.size(), 4U);
}

}  // namespace
}  // namespace gradsync::plan
