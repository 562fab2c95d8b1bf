// Covers: conditions.cpp, plan.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/plan/samples.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string complaint_about(const char* field, const json& value) {
  json plan = sample_plan();
  plan[field] = value;
  return complaint(plan);
}

TEST(ParsePlan, ReadsEveryField) {
  json source = sample_plan();
  source.update({{"about", "why"},
                 {"warmup_steps", 2},
                 {"timeout_s", 1.5},
                 {"threads_per_rank", 2},
                 {"device", "cuda"},
                 {"backend", "nccl"}});
  const Plan plan = parse_plan(source, "p.json");
  EXPECT_EQ(plan.name, "sample");
  EXPECT_EQ(plan.about, "why");
  EXPECT_EQ(plan.seed, 42U);
  EXPECT_EQ(plan.timeout_s, 1.5);
  EXPECT_EQ(plan.window_rule, "honest");
  EXPECT_EQ(plan.threads_per_rank, 2);
  EXPECT_EQ(plan.device, "cuda");
  EXPECT_EQ(plan.backend, "nccl");
  EXPECT_EQ(plan.source, source);
  ASSERT_EQ(plan.parts.size(), 1U);
  EXPECT_EQ(plan.parts[0].name, "");
  EXPECT_EQ(plan.parts[0].steps, 5);
  EXPECT_EQ(plan.parts[0].warmup_steps, 2);
  EXPECT_EQ(plan.parts[0].rounds, 3);
  EXPECT_EQ(plan.parts[0].launches, 2);
}

TEST(ParsePlan, PartsOverrideThePlan) {
  const Plan plan = parse_plan(sample_plan_in_parts(), "p.json");
  ASSERT_EQ(plan.parts.size(), 2U);
  const Part& fast = plan.parts[0];
  const Part& slow = plan.parts[1];
  EXPECT_EQ(fast.name, "fast");
  EXPECT_EQ(fast.steps, 5);
  EXPECT_EQ(fast.total_steps, 0);
  EXPECT_EQ(fast.launches, 1);
  EXPECT_EQ(fast.cells.at(0).model, "mlp");
  EXPECT_EQ(slow.about, "over a link");
  EXPECT_EQ(slow.total_steps, 29);  // the plan's `steps` gives way
  EXPECT_EQ(slow.launches, 4);
  EXPECT_EQ(slow.warmup_steps, 4);
  EXPECT_EQ(slow.cells.at(0).model, "bert_mini");
  EXPECT_EQ(slow.cells.at(1).strategy, "no_sync");
}

TEST(ParsePlan, StepsOfAPartReplaceTotalStepsOfThePlan) {
  json source = sample_plan_in_parts();
  source.erase("steps");
  source["total_steps"] = 10;
  source["parts"][1].erase("total_steps");
  source["parts"][1]["steps"] = 3;
  const Plan plan = parse_plan(source, "p.json");
  EXPECT_EQ(plan.parts.at(0).total_steps, 10);
  EXPECT_EQ(plan.parts.at(1).total_steps, 0);
  EXPECT_EQ(plan.parts.at(1).steps, 3);
}

TEST(ParsePlan, UnknownFieldNamesThoseThereAre) {
  EXPECT_EQ(
      complaint_about("fruit", 3),
      "p.json: field 'fruit': got an unknown field, expected one of about, backend, cells, "
      "device, distance_steps, every_micro_batch, fold_from_bytes, gloo_loop, launches, name, on, "
      "parts, rounds, schema, seed, steps, threads_per_rank, timed, "
      "timeout_s, total_steps, warmup_steps, window_rule");
  EXPECT_EQ(complaint_about("step", 3),
            "p.json: field 'step': got an unknown field, expected one of 22 names (did you mean "
            "steps?)");
  json parts = sample_plan_in_parts();
  parts["parts"][1]["seed"] = 3;
  EXPECT_THAT(complaint(parts), HasSubstr("field 'parts[1].seed': got an unknown field"));
}

TEST(ParsePlan, CountsAreWholeAndPositive) {
  for (const char* field : {"steps", "rounds", "launches", "threads_per_rank"}) {
    for (const json& wrong : {json(0), json(-1), json(2.5), json("3"), json(json::array({3}))}) {
      EXPECT_EQ(complaint_about(field, wrong), "p.json: field '" + std::string(field) + "': got " +
                                                   wrong.dump() +
                                                   ", expected an integer of at least 1");
    }
    EXPECT_THAT(complaint_about(field, 3000000000), HasSubstr("at most 1000000"));
  }
  EXPECT_THAT(complaint_about("seed", -1), HasSubstr("an integer of at least 0"));
}

TEST(ParsePlan, APartMayMeasureDistances) {
  json source = sample_plan_in_parts();
  source["parts"][1]["distance_steps"] = 7;
  const Plan plan = parse_plan(source, "p.json");
  EXPECT_EQ(plan.parts.at(0).distance_steps, 0);
  for (const Launch& launch : expand(plan)) {
    for (const Trial& trial : launch.trials) {
      const bool first = launch.launch == 0 && trial.round == 0;
      EXPECT_EQ(trial.distance_steps, launch.part == "slow" && first ? 7 : 0);
    }
  }
  EXPECT_THAT(complaint_about("distance_steps", -1), HasSubstr("an integer of at least 0"));
}

TEST(ParsePlan, APartMayWantNoTimes) {
  json source = sample_plan_in_parts();
  source["parts"][1]["timed"] = false;
  source["parts"][1]["warmup_steps"] = 0;  // there is no time to spoil
  for (const Launch& launch : expand(parse_plan(source, "p.json"))) {
    for (const Trial& trial : launch.trials) EXPECT_EQ(trial.timed, launch.part != "slow");
  }
  source["parts"][1]["distance_steps"] = 7;
  EXPECT_THAT(complaint(source), HasSubstr("parts[1].distance_steps"));
  EXPECT_THAT(complaint_about("timed", "no"), HasSubstr("field 'timed'"));
}

TEST(ParsePlan, UnderBackendFakeNothingIsTimed) {
  json source = sample_plan_in_parts();
  source["backend"] = "fake";
  const Plan plan = parse_plan(source, "p.json");
  EXPECT_FALSE(plan.every_micro_batch);
  for (const Launch& launch : expand(plan)) {
    for (const Trial& trial : launch.trials) EXPECT_FALSE(trial.timed);
  }
  source["every_micro_batch"] = true;
  EXPECT_TRUE(parse_plan(source, "p.json").every_micro_batch);
}

TEST(ParsePlan, TimeoutIsPositive) {
  EXPECT_THAT(complaint_about("timeout_s", 0), HasSubstr("seconds above 0"));
  EXPECT_THAT(complaint_about("timeout_s", -2), HasSubstr("seconds above 0"));
  EXPECT_THAT(complaint_about("timeout_s", "60s"), HasSubstr("a number"));
}

TEST(ParsePlan, ChoicesAreClosed) {
  EXPECT_EQ(complaint_about("window_rule", "fair"),
            "p.json: field 'window_rule': got \"fair\", expected \"honest\" or \"as_published\"");
  EXPECT_THAT(complaint_about("device", "tpu"), HasSubstr("\"cpu\" or \"cuda\""));
  EXPECT_THAT(complaint_about("backend", "mpi"), HasSubstr("\"gloo\" or \"nccl\" or \"fake\""));
  EXPECT_THAT(complaint_about("backend", "nccl"), HasSubstr("where device is \"cpu\""));
}

TEST(ParsePlan, OnlyARankThatIsAloneMayFold) {
  json source = sample_plan();
  source["fold_from_bytes"] = "1MiB";
  EXPECT_EQ(complaint(source),
            "p.json: field 'fold_from_bytes': got \"1MiB\", expected 0, or backend \"fake\": "
            "folded tensors hold garbage");
  source["backend"] = "fake";
  EXPECT_EQ(parse_plan(source, "p.json").fold_from_bytes, 1 << 20);
  source["fold_from_bytes"] = 4096;
  EXPECT_EQ(parse_plan(source, "p.json").fold_from_bytes, 4096);
  for (const json& wrong : {json(-1), json("1"), json(true), json(1.5)}) {
    source["fold_from_bytes"] = wrong;
    EXPECT_THAT(complaint(source), HasSubstr("field 'fold_from_bytes': got " + wrong.dump()));
  }
  source.erase("fold_from_bytes");
  EXPECT_EQ(parse_plan(source, "p.json").fold_from_bytes, 0);
  source["device"] = "cuda";
  EXPECT_THAT(complaint(source), HasSubstr("where device is \"cuda\""));
}

TEST(ParsePlan, NamesAndSchemaAreChecked) {
  EXPECT_THAT(complaint_about("schema", "gradsync.plan/9"), HasSubstr("\"gradsync.plan/1\""));
  EXPECT_THAT(complaint_about("name", "a/b"), HasSubstr("letters, digits"));
  EXPECT_THAT(complaint_about("name", 3), HasSubstr("a string"));
  EXPECT_THAT(complaint(json::array()), HasSubstr("expected an object"));
  json nameless = sample_plan();
  nameless.erase("name");
  EXPECT_THAT(complaint(nameless), HasSubstr("field 'name': got nothing"));
  json without_cells = sample_plan();
  without_cells.erase("cells");
  EXPECT_THAT(complaint(without_cells), HasSubstr("field 'cells': got nothing"));
  EXPECT_THAT(complaint_about("cells", {1}), HasSubstr("an object of lists"));
}

TEST(ParsePlan, PartsAreANonEmptyListOfDistinctNames) {
  json plan = sample_plan_in_parts();
  plan["parts"][1]["name"] = "fast";
  EXPECT_THAT(complaint(plan),
              AllOf(HasSubstr("parts[1].name"), HasSubstr("a name no other part has")));
  plan["parts"][1]["name"] = "cells";
  EXPECT_THAT(complaint(plan), HasSubstr("parts[1].name"));
  plan["parts"][1] = 3;
  EXPECT_THAT(complaint(plan), HasSubstr("parts[1]"));
  EXPECT_THAT(complaint_about("parts", json::array()), HasSubstr("at least one part"));
  EXPECT_THAT(complaint_about("parts", "fast"), HasSubstr("at least one part"));
}

TEST(ParsePlan, HonestWindowsNeedAWarmUpStep) {
  EXPECT_THAT(complaint_about("warmup_steps", 0),
              AllOf(HasSubstr("at least 1"), HasSubstr("steady")));
  EXPECT_EQ(complaint_about("warmup_steps", 1), "no error");
  json without_times = sample_plan();
  without_times.update({{"backend", "fake"}, {"warmup_steps", 0}});
  EXPECT_EQ(parse_plan(without_times, "p.json").parts.at(0).warmup_steps, 0);
}

TEST(ParsePlan, AsPublishedRunsWholeAndCold) {
  json source = sample_plan();
  source.erase("steps");
  source.update({{"window_rule", "as_published"}, {"total_steps", 29}, {"warmup_steps", 2}});
  const Part part = parse_plan(source, "p.json").parts.at(0);
  EXPECT_EQ(part.warmup_steps, 0);
  EXPECT_EQ(part.steps, 29);
  EXPECT_EQ(part.total_steps, 0);
}

TEST(ParsePlan, StepsAreSaidOneWay) {
  EXPECT_THAT(complaint_about("total_steps", 29), HasSubstr("either steps or total_steps"));
}

TEST(ParsePlan, EveryTrialGetsAStep) {
  json source = sample_plan();
  source.erase("steps");
  source["total_steps"] = 5;  // 2 launches x 3 rounds
  EXPECT_EQ(complaint(source),
            "p.json: field 'total_steps': got 5 for 2 launches x 3 rounds, expected at least one "
            "step for each launch and round");
  source["total_steps"] = 6;
  EXPECT_EQ(complaint(source), "no error");
}

TEST(ParsePlan, EndlessPlansAreRefused) {
  json source = sample_plan();
  source["launches"] = 1000000;
  source["rounds"] = 1000000;
  EXPECT_THAT(complaint(source), HasSubstr("at most 1000000 trials"));
}

}  // namespace
}  // namespace gradsync::plan
