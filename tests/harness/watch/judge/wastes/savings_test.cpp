#include "harness/watch/judge/wastes/savings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace gradsync::watch {
namespace {

// When the last of `count` equal buckets is reduced, each of which is there when its share of the
// backward has passed, by a wire that takes one at a time.
double reduced_at_s(int count, double backward_s, double wire_s) {
  double free_s = 0;
  for (int i = 1; i <= count; ++i) {
    free_s = std::max(free_s, backward_s * i / count) + wire_s / count;
  }
  return free_s;
}

TEST(Savings, BucketsAreAnEighthAndNeitherTinyNorLargerThanDdpHasThem) {
  EXPECT_EQ(bucket_bytes_for(16 * kMebibyte), 2 * kMebibyte);
  EXPECT_EQ(bucket_bytes_for(20 * kMebibyte), 3 * kMebibyte);
  EXPECT_EQ(bucket_bytes_for(1000), kMebibyte);
  EXPECT_EQ(bucket_bytes_for(433 * kMebibyte), kDefaultBucketBytes);
}

TEST(Savings, BucketsHaveRoomForAllGradients) {
  EXPECT_EQ(buckets_for(1000), 1);
  EXPECT_EQ(buckets_for(16 * kMebibyte), 8);
  EXPECT_EQ(buckets_for(16 * kMebibyte + 1), 9);
  EXPECT_EQ(buckets_for(433 * kMebibyte), 18);
}

TEST(Savings, OverlapSavesWhatAQueueOfBucketsSaves) {
  for (const int count : {1, 2, 4, 8, 17}) {
    for (const double wire_s : {0.0, 0.01, 0.09, 0.1, 0.11, 0.4}) {
      const double backward_s = 0.1;
      const double saved_s = backward_s + wire_s - reduced_at_s(count, backward_s, wire_s);
      EXPECT_NEAR(overlap_saves_s(backward_s, wire_s, 1.0 / count), saved_s, 1e-12)
          << count << " buckets, " << wire_s << " s";
    }
  }
}

TEST(Savings, NothingIsSavedWhereOneTensorIsAll) {
  EXPECT_EQ(overlap_saves_s(0.1, 0.1, 1.5), 0);
}

TEST(Savings, WhatEachCostsIsTheTimeOfNone) {
  std::vector<TimedReduction> reductions;
  for (const int kibibytes : {4, 4, 4, 64, 300, 512, 2048}) {
    const std::int64_t bytes = std::int64_t{kibibytes} * 1024;
    reductions.push_back({bytes, 0.003 + 1e-9 * static_cast<double>(bytes)});
  }
  EXPECT_NEAR(*cost_of_each_s(reductions), 0.003, 1e-12);
}

TEST(Savings, AFewThatTookTooLongCostWhatTheyTookAndChangeNoSlope) {
  std::vector<TimedReduction> reductions;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t bytes = i % 2 == 0 ? 4096 : kMebibyte;
    reductions.push_back({bytes, 0.002 + 2e-9 * static_cast<double>(bytes)});
  }
  reductions[0].wire_s = reductions[7].wire_s = reductions[20].wire_s = 1;
  EXPECT_NEAR(*cost_of_each_s(reductions), (37 * 0.002 + 3 * 1) / 40, 2e-4);
}

TEST(Savings, WhatEachCostsIsNotKnownOfOneSizeAndNeverLessThanNothing) {
  EXPECT_EQ(cost_of_each_s({}), std::nullopt);
  EXPECT_EQ(cost_of_each_s({{1000, 0.001}, {1000, 0.002}}), std::nullopt);
  EXPECT_EQ(cost_of_each_s({{1000, 0.001}, {2000, 0.004}}), 0);  // the line comes from below
  EXPECT_NEAR(*cost_of_each_s({{1000, 0.004}, {2000, 0.002}}), 0.003, 1e-12);  // it never falls
}

}  // namespace
}  // namespace gradsync::watch
