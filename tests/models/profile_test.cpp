#include "models/profile.h"

#include <gmock/gmock.h>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json sample() {
  return json::parse(R"({
    "schema": "gradsync.profile/1", "name": "small", "about": "a test", "source": "by hand",
    "layers": [{"name": "a", "forward_s": 0.01, "backward_s": 0.02,
                "parameters": [{"name": "a.weight", "shape": [4, 3]}, {"name": "a.bias", "shape": [4]}]}],
    "optimizer_s": 0.5, "dtype": "float32", "buffers": [{"name": "ids", "shape": [1, 9]}]})");
}

TEST(Profile, ReadsWhatTheFileSays) {
  const test::TemporaryFolder folder;
  const Profile profile = read_profile(folder.write("small.json", sample().dump()));
  EXPECT_EQ(profile.name, "small");
  ASSERT_EQ(profile.layers.size(), 1);
  EXPECT_EQ(profile.layers[0].forward_s, 0.01);
  EXPECT_EQ(profile.layers[0].backward_s, 0.02);
  ASSERT_EQ(profile.layers[0].parameters.size(), 2);
  EXPECT_EQ(profile.layers[0].parameters[0].name, "a.weight");
  EXPECT_EQ(profile.layers[0].parameters[0].elements(), 12);
  EXPECT_EQ(profile.optimizer_s, 0.5);
  EXPECT_EQ(profile.buffers[0].elements(), 9);
}

TEST(Profile, TheShippedOneIsBertBaseAtThePaceOfAT4) {
  const Profile profile =
      read_profile(build_info().source_dir + "/models/profiles/paced_bert_base_t4.json");
  std::int64_t elements = 0;
  std::size_t tensors = 0;
  double forward_s = 0;
  double backward_s = 0;
  for (const ProfileLayer& layer : profile.layers) {
    forward_s += layer.forward_s;
    backward_s += layer.backward_s;
    tensors += layer.parameters.size();
    for (const ProfileTensor& tensor : layer.parameters) elements += tensor.elements();
  }
  EXPECT_EQ(tensors, 201);
  EXPECT_EQ(elements, 108'311'810);
  EXPECT_NEAR(forward_s + backward_s, 0.0958, 0.001);
  EXPECT_NEAR(backward_s / forward_s, 2, 1e-9);
}

struct Wrong {
  std::string name;
  std::string pointer;  // JSON pointer to what is changed
  json value;           // null: removed
  std::string message;  // what must be said
};

class WrongProfile : public testing::TestWithParam<Wrong> {};

TEST_P(WrongProfile, IsRefusedNamingFileFieldGotAndExpected) {
  json profile = sample();
  const json::json_pointer place(GetParam().pointer);
  if (GetParam().value.is_null()) {
    profile[place.parent_pointer()].erase(place.back());
  } else {
    profile[place] = GetParam().value;
  }
  const test::TemporaryFolder folder;
  const std::string file = folder.write("small.json", profile.dump());
  const std::string message = test::message_of<ConfigError>([&] { read_profile(file); });
  EXPECT_THAT(message, HasSubstr(file));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, WrongProfile,
    testing::Values(
        Wrong{"foreign", "/schema", "gradsync.plan/1", "'schema': got \"gradsync.plan/1\""},
        Wrong{"dtype", "/dtype", "float64", "'dtype': got \"float64\", expected \"float32\""},
        Wrong{"unknown_field", "/speed", 1, "'speed': got an unknown field"},
        Wrong{"unknown_layer_field", "/layers/0/speed", 1, "'layers[0].speed'"},
        Wrong{"no_layers", "/layers", json::array(), "'layers': got none"},
        Wrong{"no_parameters", "/layers/0/parameters", json::array(), "at least one parameter"},
        Wrong{"time_missing", "/layers/0/forward_s", nullptr, "'layers[0].forward_s': got nothing"},
        Wrong{"time_negative", "/layers/0/backward_s", -0.1, "'layers[0].backward_s': got -0.1"},
        Wrong{"time_text", "/optimizer_s", "1s", "'optimizer_s': got \"1s\""},
        Wrong{"shape_empty", "/layers/0/parameters/0/shape", json::array(),
              "'layers[0].parameters[0].shape': got []"},
        Wrong{"shape_zero", "/layers/0/parameters/0/shape", {4, 0}, "positive integers"},
        Wrong{"shape_negative", "/layers/0/parameters/0/shape", {-4}, "positive integers"},
        Wrong{"shape_huge",
              "/layers/0/parameters/0/shape",
              {1 << 30, 1 << 30, 1 << 30},
              "at most 2^40 elements"},
        Wrong{"name_twice", "/layers/0/parameters/1/name", "a.weight",
              "'layers[0].parameters[1].name': got \"a.weight\", expected a name that no other"},
        Wrong{"name_of_a_buffer_too", "/buffers/0/name", "a.weight", "'buffers[0].name'"},
        Wrong{"name_undotted", "/buffers/0/name", "a..ids", "names joined by dots"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradsync::models
