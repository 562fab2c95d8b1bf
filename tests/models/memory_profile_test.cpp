#include "models/memory_profile.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "models/profile.h"
#include "models/suite.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// As a file has it: numbers that are not negative are unsigned there.
json as_parsed(const json& value) {
  return json::parse(value.dump());
}

json recorded() {
  const auto module = [](const char* name, const char* type) {
    return json{{"name", name},      {"class", type},           {"saved_bytes", 7},
                {"output_bytes", 8}, {"forward_high_bytes", 9}, {"backward_high_bytes", 10}};
  };
  return as_parsed(
      {{"recorded_on", "cpu"},
       {"dtype", "float32"},
       {"batch_bytes", 64},
       {"buffers_bytes", {16}},
       {"parameters",
        {{{"name", "a.weight"}, {"shape", {2, 3}}, {"trains", true}, {"tied", {"b.weight"}}},
         {{"name", "scale"}, {"shape", json::array()}, {"trains", false}}}},
       {"modules", {module("", "Model"), module("a", "Block"), module("a.norm", "Norm")}},
       {"units", {"Block"}},
       {"forward", {{"in", 0}, {"hold", 5, -3}, {"out", 0}}},
       {"backward_first", {{"gradient", 1, 24}}},
       {"backward_later", json::array()}});
}

TEST(MemoryProfile, EveryFieldIsRead) {
  const MemoryProfile profile = read_memory_profile(recorded(), "x.json");
  EXPECT_FALSE(profile.is_fake);
  EXPECT_EQ(profile.batch_bytes, 64);
  EXPECT_THAT(profile.buffer_bytes, ElementsAre(16));
  EXPECT_EQ(profile.parameters[0].elements(), 6);
  EXPECT_EQ(profile.parameters[1].elements(), 1);
  EXPECT_FALSE(profile.parameters[1].trains);
  EXPECT_EQ(profile.modules[1].type, "Block");
  EXPECT_EQ(profile.modules[1].saved_bytes, 7);
  EXPECT_EQ(profile.modules[1].backward_high_bytes, 10);
  EXPECT_EQ(profile.forward[1].high, 5);
  EXPECT_EQ(profile.forward[1].net, -3);
  EXPECT_EQ(profile.backward_first[0].index, 1U);
  EXPECT_EQ(profile.backward_first[0].net, 24);
}

TEST(MemoryProfile, ModulesAreNamedByNameOrClass) {
  const MemoryProfile profile = read_memory_profile(recorded(), "x.json");
  EXPECT_THAT(modules_named(profile, {"Norm", "a"}), ElementsAre(1, 2));
  EXPECT_THAT(modules_named(profile, {}), ElementsAre());
  EXPECT_THAT(test::message_of<ConfigError>(
                  [&] { modules_named(profile, {"Model"}); }),  // it always is one
              HasSubstr("got \"Model\""));
}

TEST(MemoryProfile, AProfileWithoutLayersIsPredictedAndNotRun) {
  const json source{{"schema", "gradsync.profile/1"},
                    {"name", "x"},
                    {"about", "x"},
                    {"source", "x"},
                    {"dtype", "float32"},
                    {"memory", recorded()}};
  const test::TemporaryFolder folder;
  const std::string file = folder.write("x.json", source.dump());
  EXPECT_TRUE(read_profile(file).memory);
  EXPECT_THAT(test::message_of<ConfigError>([&] { paced_by_file(file); }),
              HasSubstr("recorded without times"));
}

TEST(MemoryProfile, AProfileWithLayersHoldsWhatWasRecordedUnlessScaled) {
  const json tensor{{"name", "a.weight"}, {"shape", {2, 3}}};
  const json layer{
      {"name", "a"}, {"forward_s", 0}, {"backward_s", 0}, {"parameters", json::array({tensor})}};
  const json source{{"schema", "gradsync.profile/1"},
                    {"name", "x"},
                    {"about", "x"},
                    {"source", "x"},
                    {"layers", json::array({layer})},
                    {"optimizer_s", 0},
                    {"dtype", "float32"},
                    {"buffers", json::array()},
                    {"memory", recorded()}};
  const test::TemporaryFolder folder;
  const std::string file = folder.write("x.json", source.dump());
  const ModelDescription description = paced_by_file(file);
  EXPECT_TRUE(description.replays_memory);
  EXPECT_EQ(description.checkpointable_units, 1);
  FootprintOptions options;
  EXPECT_TRUE(declared_footprint(file, options).footprint);
  options.levers.checkpointed.every = 1;
  EXPECT_THAT(declared_footprint(file, options).unknown_because,
              HasSubstr("with its activation checkpointing"));
  options.scale = 2;
  EXPECT_TRUE(declared_footprint(file, options).footprint);
}

struct WrongField {
  std::string name;
  std::string pointer;
  json value;
  std::string message;
};

class WrongMemory : public testing::TestWithParam<WrongField> {};

TEST_P(WrongMemory, IsRefused) {
  json value = recorded();
  value[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT(
      test::message_of<ConfigError>([&] { read_memory_profile(as_parsed(value), "x.json"); }),
      HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Memory, WrongMemory,
    testing::Values(
        WrongField{"place", "/recorded_on", "moon", "'memory.recorded_on': got \"moon\""},
        WrongField{"unknown", "/speed", 1, "'memory.speed'"},
        WrongField{"module", "/modules/0/saved_bytes", -1, "'memory.modules[0].saved_bytes'"},
        WrongField{"shape", "/parameters/0/shape", {-2}, "'memory.parameters[0].shape'"},
        WrongField{
            "shape_huge", "/parameters/0/shape", {1 << 30, 1 << 30, 1 << 30}, "at most 2^40"},
        WrongField{"index", "/forward/0", {"in", 3}, "'memory.forward': got [\"in\",3]"},
        WrongField{"kind", "/forward/0", {"jump", 1}, "[\"jump\",1]"},
        WrongField{"net_above_high", "/forward/1", {"hold", 1, 2}, "[\"hold\",1,2]"},
        WrongField{
            "gradient_of_none", "/backward_first/0", {"gradient", 2, 4}, "[\"gradient\",2,4]"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradsync::models
