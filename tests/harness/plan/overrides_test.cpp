// Covers: plan_files.cpp.
#include "harness/plan/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/harness/plan/samples.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Plan with(json source, const std::vector<std::string>& overrides) {
  for (const auto& text : overrides) apply_override(source, text);
  return parse_plan(source, "p.json");
}

std::string override_error(const std::string& text, json source = sample_plan()) {
  try {
    with(std::move(source), {text});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Overrides, PlanFieldsAndAxes) {
  const Plan plan =
      with(sample_plan(), {"steps=3", "seed=7", "device=cuda", "cells.model=bert_tiny",
                           "strategy=baseline,no_sync", "timeout_s=1e1"});
  EXPECT_EQ(plan.parts.at(0).steps, 3);
  EXPECT_EQ(plan.seed, 7U);
  EXPECT_EQ(plan.device, "cuda");
  EXPECT_EQ(plan.timeout_s, 10);
  ASSERT_EQ(plan.parts.at(0).cells.size(), 4U);
  EXPECT_EQ(plan.parts.at(0).cells.at(1).strategy, "no_sync");
  EXPECT_EQ(plan.parts.at(0).cells.at(1).model, "bert_tiny");
  EXPECT_EQ(plan.source.at("cells").at("model"), json({"bert_tiny"}));
}

TEST(Overrides, ListsAreWordsWithCommasOrJson) {
  for (const char* text : {"accumulation_steps=2,8", "accumulation_steps=[2, 8]"}) {
    const auto cells =
        with(sample_plan(), {text, "strategy=baseline", "topology=1x2"}).parts[0].cells;
    ASSERT_EQ(cells.size(), 2U) << text;
    EXPECT_EQ(cells[0].accumulation_steps, 2);
    EXPECT_EQ(cells[1].accumulation_steps, 8);
  }
  const auto caps = with(sample_plan(), {"bucket_cap_bytes=1MiB,0"}).parts[0].cells;
  EXPECT_EQ(caps.front().bucket_cap_bytes, 1 << 20);
  EXPECT_TRUE(with(sample_plan(), {"static_graph=true"}).parts[0].cells[0].static_graph);
}

TEST(Overrides, StepsAndTotalStepsReplaceEachOther) {
  const Plan dealt = with(sample_plan(), {"total_steps=60"});
  EXPECT_EQ(dealt.parts.at(0).total_steps, 60);
  const Plan fixed = with(dealt.source, {"steps=2"});
  EXPECT_EQ(fixed.parts.at(0).total_steps, 0);
  EXPECT_EQ(fixed.parts.at(0).steps, 2);
}

TEST(Overrides, WithoutAPartTheyHoldForAll) {
  const Plan plan = with(sample_plan_in_parts(), {"steps=2", "model=bert_tiny", "launches=3"});
  for (const Part& part : plan.parts) {
    EXPECT_EQ(part.steps, 2) << part.name;
    EXPECT_EQ(part.total_steps, 0) << part.name;
    EXPECT_EQ(part.launches, 3) << part.name;
    EXPECT_EQ(part.cells.at(0).model, "bert_tiny") << part.name;
  }
}

TEST(Overrides, WithAPartTheyHoldForThatOne) {
  const Plan plan =
      with(sample_plan_in_parts(), {"slow.steps=2", "slow.model=bert_tiny", "fast.cells.scale=3"});
  EXPECT_EQ(plan.parts.at(0).steps, 5);
  EXPECT_EQ(plan.parts.at(0).cells.at(0).model, "mlp");
  EXPECT_EQ(plan.parts.at(0).cells.at(0).scale, 3);
  EXPECT_EQ(plan.parts.at(1).steps, 2);
  EXPECT_EQ(plan.parts.at(1).cells.at(0).model, "bert_tiny");
  EXPECT_EQ(plan.parts.at(1).cells.at(0).scale, 1);
}

TEST(Overrides, PartsCanBeChosen) {
  const Plan plan = with(sample_plan_in_parts(), {"parts=slow"});
  ASSERT_EQ(plan.parts.size(), 1U);
  EXPECT_EQ(plan.parts.at(0).name, "slow");
  EXPECT_EQ(override_error("parts=slo", sample_plan_in_parts()),
            "--set parts=slo: field 'parts': got \"slo\", expected some of fast, slow");
  EXPECT_THAT(override_error("parts=slow"), HasSubstr("this plan has none"));
}

TEST(Overrides, UnknownKeysNameThoseThereAre) {
  EXPECT_THAT(override_error("fruit=3"),
              AllOf(HasSubstr("--set fruit=3: field 'fruit': got an unknown field, expected one of "
                              "about, accumulation_steps, activation_checkpointing"),
                    HasSubstr(" steps,")));
  EXPECT_THAT(override_error("stepz=3"), HasSubstr("names (did you mean steps?)"));
  for (const char* text : {"cells.steps=3", "cells.stepz=3", "slo.steps=3", "slow.seed=3",
                           "slow.stepz=3", "fast.parts=slow", "schema=x"}) {
    EXPECT_THAT(
        override_error(text, sample_plan_in_parts()),
        AllOf(HasSubstr(std::string("--set ") + text), HasSubstr("a part's name (fast, slow)")));
  }
}

TEST(Overrides, NeedAKeyAndAValue) {
  for (const char* text : {"steps", "", "=3"}) {
    EXPECT_THAT(override_error(text), HasSubstr("KEY=VALUE")) << text;
  }
  EXPECT_THAT(override_error("model="), HasSubstr("got \"\", expected a name"));
  EXPECT_THAT(override_error("steps="), HasSubstr("got \"\", expected an integer"));
}

TEST(Overrides, NeverHideWhatIsWrongWithTheFile) {
  for (const char* text : {"steps=3", "model=mlp", "fast.steps=3"}) {
    json source = sample_plan();
    source["parts"] = {1, "x"};
    EXPECT_NE(override_error(text, source), "no error");
    source["parts"] = "fast";
    EXPECT_NE(override_error(text, source), "no error");
    source = sample_plan();
    source["cells"] = 7;
    EXPECT_NE(override_error(text, source), "no error");
    EXPECT_NE(override_error(text, json::array()), "no error");
  }
}

class ReadPlan : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "gradsync_plan_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    write("sample.json", sample_plan().dump());
    write("plan.schema.json", "{}");
    write("other.json", "{");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
  }

  std::string error(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    try {
      read_plan(directory_ + "/" + name, overrides);
    } catch (const ConfigError& problem) {
      return problem.what();
    }
    return "no error";
  }

  std::string directory_;
};

TEST_F(ReadPlan, AppliesOverridesInOrder) {
  const Plan plan = read_plan(directory_ + "/sample.json", {"steps=3", "steps=4"});
  EXPECT_EQ(plan.parts.at(0).steps, 4);
  EXPECT_EQ(plan.file, directory_ + "/sample.json");
  EXPECT_EQ(plan.source.at("steps"), 4);
}

TEST_F(ReadPlan, BlamesFileAndOverridesTogether) {
  EXPECT_THAT(error("sample.json", {"seed=1", "steps=0"}),
              HasSubstr("sample.json with --set seed=1 --set steps=0: field 'steps': got 0"));
  EXPECT_THAT(error("missing.json"), HasSubstr("No such file"));
  EXPECT_THAT(error("other.json"), HasSubstr("not valid JSON"));
}

TEST_F(ReadPlan, PathsOfTopologiesAndProfilesAreRelativeToItsFile) {
  json source = sample_plan_in_parts();
  source["cells"]["model"] = {"mlp", "mine.json"};
  source["parts"][0]["cells"]["topology"] = {"1x2", "../lines/slow.json"};
  source["parts"][1]["cells"]["topology"] = {"/lines/fast.json"};
  source["parts"][1]["cells"]["model"] = "mlp";
  write("files.json", source.dump());
  EXPECT_THAT(error("files.json"), HasSubstr("parts[1].cells.model"));  // no list: as it is
  const Plan plan = read_plan(directory_ + "/files.json", {"slow.model=mlp,other.json"});
  const std::string above = std::filesystem::path(directory_).parent_path();
  const auto is_cell = [](const std::string& topology, const std::string& model) {
    return testing::AllOf(testing::Field(&Cell::topology, topology),
                          testing::Field(&Cell::model, model));
  };
  EXPECT_THAT(
      plan.parts.at(0).cells,
      testing::IsSupersetOf({is_cell("1x2", "mlp"), is_cell("1x2", directory_ + "/mine.json"),
                             is_cell(above + "/lines/slow.json", "mlp")}));
  EXPECT_THAT(plan.parts.at(1).cells, testing::Contains(is_cell("/lines/fast.json", "other.json")));
}

TEST_F(ReadPlan, NamesResolveToFiles) {
  EXPECT_EQ(list_plans(directory_), (std::vector<std::string>{"other", "sample"}));
  EXPECT_EQ(resolve_plan("sample", directory_), directory_ + "/sample.json");
  EXPECT_EQ(resolve_plan(directory_ + "/other.json", "/nowhere"), directory_ + "/other.json");
  try {
    resolve_plan("smple", directory_);
    FAIL() << "resolved a plan that is not there";
  } catch (const ConfigError& problem) {
    EXPECT_EQ(std::string(problem.what()),
              "plan 'smple': no such plan or file, expected a file, or one of other, sample (did "
              "you mean sample?)");
  }
}

}  // namespace
}  // namespace gradsync::plan
