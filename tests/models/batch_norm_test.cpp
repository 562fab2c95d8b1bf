// One layer, by hand; BatchNormOracle in tests/harness/sync holds it against torch's.
#include "models/batch_norm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "harness/base/errors.h"
#include "models/model.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two examples of one pixel and two channels: {1, 3} in the first channel, {10, 10} in the other.
at::Tensor two_channels() {
  return at::tensor({1.0F, 10.0F, 3.0F, 10.0F}).reshape({2, 2, 1, 1});
}

TEST(BatchNorm, NormalizesByTheMicroBatchAndRemembersATenthOfIt) {
  BatchNorm2d layer(2, at::kCPU);
  const at::Tensor output = layer.forward(two_channels());
  const double one = 1 / std::sqrt(1 + kBatchNormEpsilon);
  EXPECT_NEAR(output[0][0][0][0].item<double>(), -one, 1e-6);
  EXPECT_NEAR(output[1][0][0][0].item<double>(), one, 1e-6);
  // Constant: shifted, and what rounding left divided by the root of epsilon.
  EXPECT_NEAR(output[1][1][0][0].item<double>(), 0, 1e-3);
  EXPECT_TRUE(at::allclose(layer.running_mean, at::tensor({0.2F, 1.0F})));
  // From 1 towards the unbiased variances 2 and 0.
  EXPECT_TRUE(at::allclose(layer.running_var, at::tensor({1.1F, 0.9F})));
  EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(BatchNorm, EvaluatesWithWhatItRemembers) {
  BatchNorm2d layer(2, at::kCPU);
  layer.eval();
  const double divisor = std::sqrt(1 + kBatchNormEpsilon);  // mean 0, variance 1 to begin with
  EXPECT_TRUE(at::allclose(layer.forward(two_channels()), two_channels() / divisor));
  EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 0);
}

TEST(BatchNorm, AnotherNormalizationCountsInTrainingAlone) {
  BatchNorm2d layer(2, at::kCPU);
  layer.set_training_normalization(
      [](BatchNorm2d& of, const at::Tensor& input) { return input + of.bias.numel(); });
  EXPECT_TRUE(layer.forward(two_channels()).equal(two_channels() + 2));
  EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 1);
  layer.eval();
  EXPECT_FALSE(layer.forward(two_channels()).equal(two_channels() + 2));
  layer.train();
  layer.set_training_normalization(nullptr);
  EXPECT_FALSE(layer.forward(two_channels()).equal(two_channels() + 2));
}

TEST(BatchNorm, OneValuePerChannelHasNoVariance) {
  BatchNorm2d layer(2, at::kCPU);
  const at::Tensor one = at::ones({1, 2, 1, 1});
  EXPECT_THAT(test::message_of<ConfigError>([&] { layer.forward(one); }),
              HasSubstr("got a micro-batch with 1 value per channel, expected 2 or more"));
  layer.eval();
  EXPECT_NO_THROW(layer.forward(one));
}

TEST(BatchNorm, LayersOfAModelComeInTheOrderOfForward) {
  const auto convnet = find_model("convnet").make({});
  std::vector<std::int64_t> channels;
  for (const auto& layer : batch_norms_of(*convnet)) channels.push_back(layer->weight.numel());
  EXPECT_THAT(channels, ElementsAre(32, 64, 128));
  EXPECT_TRUE(batch_norms_of(*find_model("mlp").make({})).empty());
}

}  // namespace
}  // namespace gradsync::models
