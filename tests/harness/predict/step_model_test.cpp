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

TEST(StepModel, OfAProfileWithoutTimesSaysWhatToRecord) {
  models::Profile without = profile();
  without.layers.clear();
  EXPECT_THAT([&] { step_model_of(without, 1); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("record_profile.py")));
}

}  // namespace
}  // namespace gradsync::predict
