// The plans that come with the suite say what the documentation says they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/plan/plan.h"
#include "tests/paths.h"

namespace gradsync::plan {
namespace {

const std::string kDirectory = test::path_of("source") + "/benchmarks/plans";

TEST(ShippedPlans, AreValidDescribedAndNamedAsTheirFile) {
  const auto names = list_plans(kDirectory);
  EXPECT_THAT(names,
              testing::IsSupersetOf({"bert_mini", "scale_check", "slowdown_table", "smoke"}));
  for (const auto& name : names) {
    const Plan plan = read_plan(resolve_plan(name, kDirectory), {});
    EXPECT_EQ(plan.name, name);
    EXPECT_FALSE(plan.about.empty()) << name;
    EXPECT_FALSE(expand(plan).empty()) << name;
  }
}

TEST(ShippedPlans, SlowdownTableTimesTwentyNineStepsPerCellInFourLaunches) {
  const Plan plan = read_plan(resolve_plan("slowdown_table", kDirectory), {});
  ASSERT_EQ(plan.parts.size(), 2U);
  std::map<std::string, int> steps;
  std::map<std::string, std::set<int>> launches;
  for (const Launch& launch : expand(plan)) {
    for (const Trial& trial : launch.trials) {
      const auto cell = launch.part + nlohmann::json(trial.cell).dump();
      steps[cell] += trial.steps;
      launches[cell].insert(launch.launch);
    }
  }
  EXPECT_EQ(steps.size(), 16U);  // 2 parts x 2 topologies x 4 strategies
  for (const auto& [cell, count] : steps) EXPECT_EQ(count, 29) << cell;
  for (const auto& [cell, numbers] : launches) EXPECT_EQ(numbers.size(), 4U) << cell;
}

TEST(ShippedPlans, SlowdownTableCanBeCountedAsPublished) {
  const auto path = resolve_plan("slowdown_table", kDirectory);
  for (const Launch& launch : expand(read_plan(path, {"window_rule=as_published"}))) {
    for (const Trial& trial : launch.trials) {
      EXPECT_EQ(trial.steps, 29);
      EXPECT_EQ(trial.warmup_steps, 0);
    }
  }
}

std::vector<Cell> cells_of(const std::string& name, const std::string& part) {
  const Plan plan = read_plan(resolve_plan(name, kDirectory), {});
  for (const Part& candidate : plan.parts) {
    if (candidate.name == part) return candidate.cells;
  }
  return {};
}

template <typename Value>
std::set<Value> values_of(const std::vector<Cell>& cells, Value Cell::*field) {
  std::set<Value> values;
  for (const Cell& cell : cells) values.insert(cell.*field);
  return values;
}

TEST(ShippedPlans, SweepsVaryWhatTheirNamesSay) {
  using testing::ElementsAre;
  constexpr std::int64_t kMiB = 1 << 20;
  for (const char* part : {"your_machine", "guides_machines"}) {
    EXPECT_THAT(values_of(cells_of("accumulation_sweep", part), &Cell::accumulation_steps),
                ElementsAre(1, 2, 4, 8, 16, 32));
    EXPECT_THAT(values_of(cells_of("bucket_sweep", part), &Cell::bucket_cap_bytes),
                ElementsAre(0, kMiB, 5 * kMiB, 10 * kMiB, 25 * kMiB, 50 * kMiB, 100 * kMiB));
    EXPECT_THAT(values_of(cells_of("compression_sweep", part), &Cell::compression),
                ElementsAre("bf16", "fp16", "none"));
  }
  EXPECT_THAT(values_of(cells_of("ranks_sweep", ""), &Cell::topology),
              ElementsAre("t4_2x1", "t4_3x1", "t4_4x1"));
  EXPECT_EQ(values_of(cells_of("link_sweep", ""), &Cell::topology).size(), 5U);
  const auto options = cells_of("options_sweep", "");
  EXPECT_THAT(values_of(options, &Cell::gradient_as_bucket_view), ElementsAre(false, true));
  EXPECT_THAT(values_of(options, &Cell::fused_optimizer), ElementsAre(false, true));
}

TEST(ShippedPlans, BestOfAllHasTheGuidesFourBeside) {
  const auto all = cells_of("best_of_all", "");
  const auto guides = cells_of("slowdown_table", "guides_machines");
  EXPECT_EQ(guides.size(), 8U);
  for (const Cell& cell : guides) {
    EXPECT_THAT(all, testing::Contains(cell)) << nlohmann::json(cell);
  }
}

// Two ranks that share the work, and one process or two stages that do all of it.
TEST(ShippedPlans, EveryWayOnTheRoadToDdpTakesTheSameExamplesPerStep) {
  const Plan plan = read_plan(resolve_plan("road_to_ddp", kDirectory), {});
  std::set<std::string> wrappers;
  for (const Part& part : plan.parts) {
    for (const Cell& cell : part.cells) {
      const bool shared = cell.topology != "1x1" && cell.wrapper != "pipeline";
      EXPECT_EQ(cell.accumulation_steps * (shared ? 2 : 1), 8) << part.name;
      EXPECT_EQ(part.distance_steps > 0, shared && part.cells.front().model == "bert_mini");
      wrappers.insert(cell.wrapper);
    }
  }
  EXPECT_THAT(wrappers,
              testing::ElementsAre("by_hand", "by_hand_coalesced", "ddp", "local", "pipeline"));
}

// results/reference/memory_table.json
TEST(ShippedPlans, Mixtral8x7bHasTheRowsOfThePublishedMemoryTable) {
  const Plan plan = read_plan(resolve_plan("mixtral_8x7b", kDirectory), {});
  EXPECT_EQ(plan.backend, "fake");
  std::vector<std::pair<std::string, int>> rows;
  for (const Launch& launch : expand(plan)) {
    for (const Trial& trial : launch.trials) {
      rows.emplace_back(trial.cell.strategy, trial.cell.accumulation_steps);
      EXPECT_EQ(trial.cell.topology, "1x8");
      EXPECT_EQ(trial.cell.dtype, "bfloat16");
      EXPECT_EQ(trial.cell.reduce_dtype, "bfloat16");
      EXPECT_EQ(trial.cell.memory_budget_bytes, std::int64_t{79} << 30);
    }
  }
  EXPECT_THAT(rows, testing::ElementsAre(std::pair("no_sync", 1), std::pair("no_sync", 2),
                                         std::pair("sync_each_batch", 16)));
}

}  // namespace
}  // namespace gradsync::plan
