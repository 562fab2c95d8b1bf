// The plans that come with the suite say what the documentation says they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/plan/plan.h"

namespace gradsync::plan {
namespace {

const std::string kDirectory = std::string(GRADSYNC_SOURCE_DIR) + "/benchmarks/plans";

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
