#include "harness/summary/context_difference.h"

#include <gmock/gmock.h>

namespace gradsync::summary {
namespace {

using nlohmann::json;

// The effect of the one difference between these contexts; "" where there is none.
std::string effect_between(const json& a, const json& b) {
  const auto differences = context_differences(a, b);
  EXPECT_LE(differences.size(), 1U);
  return differences.empty() ? "" : to_string(differences.front().effect);
}

TEST(ContextDifference, OfEqualContextsThereIsNone) {
  const json context = {{"cpu_model", "P"}, {"links", json::object()}, {"load_1min", 0.2}};
  EXPECT_TRUE(context_differences(context, context).empty());
}

TEST(ContextDifference, WhatMakesAStepLongerForbidsTimes) {
  for (const char* name :
       {"cpu_model", "cpus", "cores", "cpu_quota", "device", "backend", "gpu", "build_type",
        "sanitize", "data", "threads_per_rank", "pinning", "window_rule"}) {
    EXPECT_EQ(effect_between({{name, "one"}}, {{name, "another"}}), "forbids_times") << name;
    EXPECT_EQ(effect_between({{name, "one"}}, {{name, nullptr}}), "warns") << name;
    EXPECT_EQ(effect_between({{name, "one"}}, json::object()), "warns") << name;
  }
}

TEST(ContextDifference, WhatIsComparedWarns) {
  for (const char* name : {"torch", "commit", "host", "kernel", "governor", "compiler", "blas",
                           "seed", "launcher", "something_new"}) {
    EXPECT_EQ(effect_between({{name, "one"}}, {{name, "another"}}), "warns") << name;
  }
}

TEST(ContextDifference, WhatEveryRunHasOfItsOwnHasNoEffect) {
  for (const char* name : {"start_time", "end_time", "command_line", "memory_available_bytes",
                           "steal_share_since_boot", "warnings"}) {
    EXPECT_EQ(effect_between({{name, "one"}}, {{name, "another"}}), "none") << name;
  }
}

TEST(ContextDifference, TimingThatIsNotValidForbidsTimesEvenInBoth) {
  const json invalid = {{"timing_valid", false}};
  EXPECT_EQ(effect_between(invalid, {{"timing_valid", true}}), "forbids_times");
  EXPECT_EQ(effect_between(invalid, invalid), "forbids_times");
  EXPECT_EQ(effect_between({{"timing_valid", true}}, {{"timing_valid", true}}), "");
}

TEST(ContextDifference, LoadAndStealWarnOnlyBeyondNoise) {
  EXPECT_EQ(effect_between({{"steal_share_run", 0.001}}, {{"steal_share_run", 0.005}}), "none");
  EXPECT_EQ(effect_between({{"steal_share_run", 0.001}}, {{"steal_share_run", 0.1}}), "warns");
  EXPECT_EQ(effect_between({{"cpus", 2}, {"load_1min", 0.1}}, {{"cpus", 2}, {"load_1min", 0.9}}),
            "none");
  EXPECT_EQ(effect_between({{"cpus", 2}, {"load_1min", 0.1}}, {{"cpus", 2}, {"load_1min", 1.3}}),
            "warns");
}

json link_context(double payload_bits_per_s, double rate_bits_per_s = 1e9) {
  return {{"links",
           {{"2x1 / 50",
             {{"measured_payload_bits_per_s", payload_bits_per_s},
              {"rate_bits_per_s", rate_bits_per_s}}}}}};
}

TEST(ContextDifference, ALinkMayMeasureTwoPercentOff) {
  EXPECT_EQ(effect_between(link_context(1.000e9), link_context(0.985e9)), "none");
  EXPECT_EQ(effect_between(link_context(1.000e9), link_context(0.975e9)), "warns");
}

// What a busy host's self-tests of one link come out as warns; what no load explains forbids.
TEST(ContextDifference, ALinkThatMeasuresAQuarterOffIsAnotherLink) {
  EXPECT_EQ(effect_between(link_context(1.000e9), link_context(0.76e9)), "warns");
  EXPECT_EQ(effect_between(link_context(1.000e9), link_context(0.74e9)), "forbids_times");
  EXPECT_EQ(effect_between(link_context(0.74e9), link_context(1.000e9)), "forbids_times");
}

TEST(ContextDifference, ALinkThatIsSetToAnotherRateForbidsTimesHoweverItMeasures) {
  EXPECT_EQ(effect_between(link_context(8e8, 1e9), link_context(8e8, 0.9e9)), "forbids_times");
}

TEST(ContextDifference, ALinkThatOneRunDidNotMeasureWarns) {
  json unmeasured = link_context(1e9);
  unmeasured["links"]["2x1 / 50"]["measured_payload_bits_per_s"] = nullptr;
  EXPECT_EQ(effect_between(link_context(1e9), unmeasured), "warns");
}

TEST(ContextDifference, ALinkConcernsTheCellsOfItsTopologyAndScale) {
  const auto differences = context_differences(link_context(1e9), link_context(2e9));
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_TRUE(differences[0].concerns(json{{"topology", "2x1"}, {"scale", 50}}));
  EXPECT_FALSE(differences[0].concerns(json{{"topology", "2x1"}, {"scale", 10}}));
  EXPECT_FALSE(differences[0].concerns(json{{"topology", "1x2"}, {"scale", 50}}));
}

TEST(ContextDifference, TopologiesOfOneNameMustBeTheSame) {
  const auto context = [](const json& rate, const std::string& about) {
    return json{{"topologies", {{"2x1", {{"inter_node_bits_per_s", rate}, {"about", about}}}}}};
  };
  EXPECT_EQ(effect_between(context(1e9, ""), context(2e9, "")), "forbids_times");
  EXPECT_EQ(effect_between(context(1e9, ""), context(nullptr, "")), "forbids_times");
  EXPECT_EQ(effect_between(context(1e9, "x"), context(1e9, "y")), "none");
  EXPECT_EQ(effect_between(context(1e9, ""), {{"topologies", json::object()}}), "");
}

TEST(ContextDifference, AVariableThatOneRunHadForbidsTimes) {
  const json blocking = {{"variables", {{"CUDA_LAUNCH_BLOCKING", "1"}}}};
  const json none = {{"variables", json::object()}};
  EXPECT_EQ(effect_between(blocking, none), "forbids_times");
  EXPECT_EQ(effect_between(none, blocking), "forbids_times");
  EXPECT_EQ(effect_between(blocking, {{"variables", {{"CUDA_LAUNCH_BLOCKING", "0"}}}}),
            "forbids_times");
  EXPECT_EQ(context_differences(blocking, none).at(0).field, "variables.CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(effect_between(blocking, json::object()), "warns");
  EXPECT_EQ(effect_between(none, json::object()), "");
}

TEST(ContextDifference, WhatForbidsComesFirst) {
  const auto differences = context_differences({{"commit", "x"}, {"cpus", 2}, {"end_time", 1}},
                                               {{"commit", "y"}, {"cpus", 4}, {"end_time", 2}});
  std::vector<std::string> fields;
  for (const ContextDifference& difference : differences) fields.push_back(difference.field);
  EXPECT_THAT(fields, ::testing::ElementsAre("cpus", "commit", "end_time"));
}

}  // namespace
}  // namespace gradsync::summary
