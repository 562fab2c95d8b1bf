#include "harness/predict/step_model.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::predict {
namespace {

models::Profile profile() {
  models::Profile made;
  made.name = "two";
  made.layers = {{"a", 1, 2, {{"a.w", {10, 10}}, {"a.b", {3}}}}, {"b", 3, 4, {}}};
  made.optimizer_s = 5;
  made.buffers = {{"ids", {8}}};
  return made;
}

TEST(StepModel, IsWhatTheProfileSays) {
  const StepModel model = step_model_of(profile(), 1);
  EXPECT_DOUBLE_EQ(model.forward_s(), 4);
  EXPECT_DOUBLE_EQ(model.backward_s(), 6);
  EXPECT_DOUBLE_EQ(model.optimizer_s, 5);
  EXPECT_EQ(model.elements(), 103);
  EXPECT_THAT(model.buffer_bytes, ::testing::ElementsAre(64));
}

TEST(StepModel, ScalesTensorsAsAPacedModelDoes) {
  const StepModel model = step_model_of(profile(), 8);
  EXPECT_THAT(model.layers[0].elements, ::testing::ElementsAre(13, 1));  // 12.5 up; at least one
  EXPECT_THAT(model.buffer_bytes, ::testing::ElementsAre(8));
}

TEST(StepModel, LayersOfAUnitBecomeOneAndTheOthersParametersAreTheRoots) {
  StepModel model;
  for (const char* name : {"in", "block.1.a", "block.1.b", "block.10", "out"}) {
    model.layers.push_back({name, 1, 2, {100, 1}});
  }
  const StepModel divided = divided_into({"block.1", "block.10"}, model);
  ASSERT_EQ(divided.layers.size(), 4U);
  EXPECT_EQ(divided.layers[1].name, "block.1");
  EXPECT_DOUBLE_EQ(divided.layers[1].forward_s, 2);
  EXPECT_DOUBLE_EQ(divided.layers[1].backward_s, 4);
  EXPECT_THAT(divided.layers[1].elements, ::testing::ElementsAre(100, 1, 100, 1));
  EXPECT_THAT(divided.layers[3].elements, ::testing::IsEmpty());
  EXPECT_EQ(divided.root_elements, 2 * 101);
  EXPECT_EQ(divided.elements(), 3 * 101);
  EXPECT_TRUE(divided.shards_optimizer);
}

TEST(StepModel, OfAProfileWithoutTimesSaysWhatToRecord) {
  models::Profile without = profile();
  without.layers.clear();
  EXPECT_THAT([&] { step_model_of(without, 1); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("record_profile.py")));
}

}  // namespace
}  // namespace gradsync::predict
