// Which options each prediction knows, and that it refuses all others.
#include "harness/plan/known_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "harness/base/errors.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::array kPredictions{Prediction::Memory, Prediction::JobMemory, Prediction::Step,
                                  Prediction::Advice, Prediction::Pace};

// Some values that an axis may have.
std::vector<json> values_of(const Axis& axis) {
  if (axis.schema.contains("enum")) return axis.schema["enum"];
  if (axis.schema.contains("pattern")) return {"none", "full", "every_3"};
  if (axis.schema.value("type", "") == "boolean") return {false, true};
  if (axis.schema.value("type", "") == "string") return {"a_name"};
  return {1, 7};
}

// A cell of a file, which names what it has under any wrapper.
json cell_with(const Axis& axis, const json& value) {
  Cell cell;
  axis.set(cell, value);
  return {{axis.name, axis.get(cell)}};
}

TEST(KnownOptions, EachOffItsDefaultIsListedOrRefusedByName) {
  for (const Axis& axis : axes()) {
    for (const json& value : values_of(axis)) {
      const json cell = cell_with(axis, value);
      for (const Prediction prediction : kPredictions) {
        const auto known = axis.known_to.find(prediction);
        const bool is_known = cell[axis.name] == default_of(axis) ||
                              (known != axis.known_to.end() &&
                               (known->second.empty() ||
                                std::count(known->second.begin(), known->second.end(), value) > 0));
        const auto unknown = unknown_option(cell, prediction);
        ASSERT_EQ(unknown.has_value(), !is_known) << cell;
        if (is_known) continue;
        EXPECT_EQ(unknown->option, axis.name);
        EXPECT_THAT(sentence(*unknown),
                    HasSubstr(axis.name + " " +
                              (value.is_string() ? value.get<std::string>() : value.dump())));
      }
    }
  }
}

// An option without entries is known to no prediction.
TEST(KnownOptions, ANewOptionIsKnownToNone) {
  const Axis& axis = *std::ranges::find(axes(), std::string("autocast"), &Axis::name);
  EXPECT_TRUE(axis.known_to.empty());
  for (const Prediction prediction : kPredictions) {
    EXPECT_NE(why_unknown({{"autocast", "bfloat16"}}, prediction), "");
    EXPECT_EQ(why_unknown({{"autocast", "none"}}, prediction), "");
  }
}

TEST(KnownOptions, AFilesCellLacksWhatIsAtItsDefault) {
  EXPECT_EQ(why_unknown(json::object(), Prediction::Step), "");
  EXPECT_EQ(why_unknown(Cell{}, Prediction::Memory), "");
}

TEST(KnownOptions, ASentenceNamesOptionValueAndPrediction) {
  const json unused{{"find_unused_parameters", true}};
  EXPECT_EQ(why_unknown(unused, Prediction::Step),
            "a step's time is not predicted with find_unused_parameters true");
  EXPECT_EQ(why_unknown(unused, Prediction::Memory),
            "memory is not predicted with find_unused_parameters true");
  EXPECT_EQ(why_unknown(unused, Prediction::JobMemory),
            "a recorded job's memory is not predicted with find_unused_parameters true");
  EXPECT_EQ(why_unknown(unused, Prediction::Advice),
            "advise does not know find_unused_parameters true");
  EXPECT_EQ(why_unknown({{"fused_optimizer", false}}, Prediction::Pace),
            "a paced model does not re-enact fused_optimizer false: a paced model has its "
            "optimizer's time in its profile");
}

TEST(KnownOptions, SomeValuesOfAnOptionMayBeKnown) {
  EXPECT_EQ(why_unknown({{"wrapper", "by_hand"}}, Prediction::Step), "");
  EXPECT_THAT(why_unknown({{"wrapper", "pipeline"}}, Prediction::Step),
              HasSubstr("a pipeline's stages"));
  EXPECT_THAT(why_unknown({{"wrapper", "by_hand"}}, Prediction::Memory),
              HasSubstr("wrapper by_hand"));
}

TEST(KnownOptions, WhatIsForgottenIsKnownThen) {
  Cell cell;
  cell.static_graph = true;
  cell.wrapper = "by_hand";
  cell.lora_rank = 4;
  forget_unknown(cell, Prediction::Memory);
  Cell expected;
  expected.lora_rank = 4;
  EXPECT_EQ(cell, expected);
}

TEST(KnownOptions, WhatAUserSetIsRefused) {
  Cell changed;
  changed.static_graph = true;
  const auto refusal = [&](const std::vector<std::string>& overrides, Prediction prediction) {
    try {
      refuse_unknown(overrides, {Cell{}, changed}, prediction, "predict");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* text :
       {"static_graph=false,true", "cells.static_graph=true", "a.static_graph=1"}) {
    EXPECT_EQ(refusal({"model=mlp", text}, Prediction::Step),
              "predict: a step's time is not predicted with static_graph true");
  }
  EXPECT_EQ(refusal({"model=mlp"}, Prediction::Step), "") << "the plan's own cells have a reason";
  EXPECT_EQ(refusal({"static_graph=true"}, Prediction::Pace), "");
  EXPECT_THAT(refusal({"micro_batch_size=16"}, Prediction::Step),
              HasSubstr("micro_batch_size 16: the micro-batch is the one that was recorded"));
  EXPECT_EQ(refusal({"micro_batch_size=16"}, Prediction::Memory), "");
}

}  // namespace
}  // namespace gradsync::plan
