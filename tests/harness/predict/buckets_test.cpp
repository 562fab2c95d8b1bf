#include "harness/predict/buckets.h"

#include <gmock/gmock.h>

#include "models/profile.h"
#include "tests/paths.h"

namespace gradsync::predict {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> bytes_of(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(4 * bucket.elements);
  return bytes;
}

std::vector<std::size_t> layers_of(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> layers;
  for (const Bucket& bucket : buckets) layers.push_back(bucket.layer);
  return layers;
}

StepModel model_of(const std::vector<std::vector<std::int64_t>>& layers) {
  StepModel model;
  for (const auto& elements : layers) model.layers.push_back({"", 0, 0, elements});
  return model;
}

TEST(Buckets, CloseWithTheTensorThatReachesTheLimit) {
  const auto model = model_of({{5, 5}, {10}, {1, 9}});
  const auto buckets = reducer_buckets(model, {36, 60});
  EXPECT_THAT(bytes_of(buckets), ElementsAre(36, 64, 20));  // 9 | 1 + 10 + 5 | 5
  EXPECT_THAT(layers_of(buckets), ElementsAre(2, 0, 0));
}

// The Reducer's own buckets of this profile at scale 50, as results/published/slowdown_table has
// them in `model_info`.
TEST(Buckets, AreThoseThatTheReducerMadeOfBert) {
  const auto profile =
      models::read_profile(test::path_of("source") + "/models/profiles/paced_bert_base_t4.json");
  const auto buckets = reducer_buckets(step_model_of(profile, 50),
                                       {memory::kFirstBucketBytes / 50, memory::kBucketBytes / 50});
  std::vector<std::int64_t> seen(14, 567008);
  seen.front() = 47372;
  seen.back() = 1813216;
  EXPECT_EQ(bytes_of(buckets), seen);
}

TEST(Buckets, ByHandThereIsOneForEachTensorAndNoneBeforeBackwardHasEnded) {
  const auto tensors = tensors_after_backward(model_of({{5, 6}, {7}}));
  EXPECT_THAT(bytes_of(tensors), ElementsAre(28, 24, 20));
  EXPECT_THAT(layers_of(tensors), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace gradsync::predict
