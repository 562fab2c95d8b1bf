// Which values go together, and what becomes of those that do not where a plan lists several.
// Each pair that does not go together has its case in cell_test.cpp.
#include "harness/plan/combinations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/harness/plan/samples.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json plan_of_levers() {
  json plan = sample_plan();
  plan["cells"] = {{"wrapper", {"ddp", "fsdp"}},
                   {"strategy", {"no_sync", "sync_each_batch"}},
                   {"accumulation_steps", {2}},
                   {"offload", {"none", "optimizer_state", "parameters"}},
                   {"optimizer_in_backward", {false, true}}};
  return plan;
}

TEST(Combinations, APlanOfLeversHasThoseThatThereAre) {
  const Plan plan = parse_plan(plan_of_levers(), "p.json");
  std::map<std::string, int> counts;
  for (const Cell& cell : plan.parts.at(0).cells) {
    EXPECT_FALSE(misfit_of(cell)) << json(cell);
    ++counts[cell.wrapper + " " + cell.strategy];
  }
  const std::map<std::string, int> expected{
      {"ddp no_sync", 2},            // its parameters stay; there is no optimizer in backward
      {"fsdp no_sync", 3 * 2},       // all
      {"fsdp sync_each_batch", 3}};  // several reductions: none steps in backward
  EXPECT_EQ(counts, expected);
}

TEST(Combinations, AValueThatIsInNoneOfThemIsRefused) {
  json plan = plan_of_levers();
  plan["cells"]["strategy"] = {"sync_each_batch"};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.strategy'")) << "nothing is left of ddp";
  plan["cells"]["wrapper"] = {"fsdp"};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.optimizer_in_backward': got true"));
  plan = plan_of_levers();
  plan["cells"]["wrapper"] = {"ddp"};
  plan["cells"]["strategy"] = {"no_sync"};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.offload': got \"parameters\""));
}

TEST(Combinations, WhatIsNoLeverStaysAsItWasAsked) {
  json plan = plan_of_levers();
  plan["cells"]["lora_rank"] = {0, 4};
  plan["cells"]["frozen_units"] = {0, 1};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.frozen_units': got 1, expected 0 where lora_rank"))
      << "though each of both is in a cell without the other";
}

}  // namespace
}  // namespace gradsync::plan
