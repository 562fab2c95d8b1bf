// What a file says of a recorded model.
//
// Covers: recorded_tensors.cpp.
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

// The same, with what is made and freed between marks.
json followed() {
  json value = recorded();
  value["changes"] = {{8, 8, 4}, {json::array({-8, 1}), -4}, {24, -8}, {-8}};
  value["batch_tensors_bytes"] = {60, 4};
  value["forward"] = {{"in", 0}, {"hold", 20, 20, 0}, {"hold", 0, -12, 1}, {"out", 0}};
  value["backward_first"] = {{"hold", 24, 16, 2}, {"gradient", 1, 24}};
  value["backward_later"] = {{"gradient", 1, 24}, {"hold", 0, -8, 3}};
  return value;
}

TEST(MemoryProfile, ChangesAreRead) {
  const MemoryProfile profile = read_memory_profile(as_parsed(followed()), "x.json");
  ASSERT_EQ(profile.changes.size(), 4U);
  EXPECT_THAT(profile.batch_tensors_bytes, ElementsAre(60, 4));
  EXPECT_EQ(profile.forward[2].index, 1U);
  const BlockChange& older = profile.changes[1][0];
  EXPECT_EQ(older.bytes, 8);
  EXPECT_FALSE(older.is_made);
  EXPECT_EQ(older.age, 1U);
  EXPECT_TRUE(profile.changes[2][0].is_made);
  EXPECT_FALSE(profile.changes[2][1].is_made);
  EXPECT_EQ(profile.changes[2][1].age, 0U);
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
  bool is_followed = false;
};

class WrongMemory : public testing::TestWithParam<WrongField> {};

TEST_P(WrongMemory, IsRefused) {
  json value = GetParam().is_followed ? followed() : recorded();
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
        WrongField{"changes_of_sums", "/forward/1", {"hold", 5, -3, 0}, "[\"hold\",5,-3,0]"},
        WrongField{"no_changes", "/forward/1", {"hold", 20, 20}, "[\"hold\",20,20]", true},
        WrongField{"changes_that_are_none", "/forward/1", {"hold", 20, 20, 4}, "20,20,4]", true},
        WrongField{"nothing_is_made", "/changes/0/0", 0, "'memory.changes': got 0", true},
        WrongField{"made_with_an_age", "/changes/0/0", {8, 1}, "got [8,1]", true},
        WrongField{"freed_twice", "/changes/3", {-8, -8}, "each pass frees what there is", true},
        WrongField{"too_old", "/changes/1/0", {-8, 2}, "each pass frees what there is", true},
        WrongField{"left_over", "/changes/3", {-8, 8}, "each pass frees what there is", true},
        WrongField{"gradient_not_made", "/changes/2", {-8}, "each pass frees what there is", true},
        WrongField{
            "gradient_too_old", "/backward_first/1", {"gradient", 1, 24, 1}, "each pass", true},
        WrongField{
            "gradient_of_none", "/backward_first/0", {"gradient", 2, 4}, "[\"gradient\",2,4]"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradsync::models
