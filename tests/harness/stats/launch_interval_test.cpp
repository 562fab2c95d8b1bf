// Intervals over launches: worked by hand, and how often they hold the truth.
#include "harness/stats/launch_interval.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <functional>

#include "harness/base/errors.h"
#include "harness/stats/student.h"
#include "tests/harness/stats/normal.h"

namespace gradsync::stats {
namespace {

using test::Normal;
using ::testing::HasSubstr;

TEST(LaunchInterval, OfAMeanIsStudentsT) {
  // Mean 2.00, s^2 = 0.0182 / 2, half = 4.302653 s / sqrt(3).
  const Estimate mean = mean_of_launches({1.95, 2.11, 1.94});
  EXPECT_DOUBLE_EQ(mean.value, 2.0);
  ASSERT_TRUE(mean.interval);
  EXPECT_NEAR(mean.interval->lo, 1.763028, 1e-6);
  EXPECT_NEAR(mean.interval->hi, 2.236972, 1e-6);
}

TEST(LaunchInterval, ThereIsNoneBelowThreeLaunches) {
  EXPECT_THAT(mean_of_launches({}).no_interval_because, HasSubstr("nothing was measured"));
  for (const Estimate& one :
       {mean_of_launches({2}), ratio_of_pairs({{4, 2}}), ratio_of_independent({4, 4, 4}, {2})}) {
    EXPECT_DOUBLE_EQ(one.value, 2);
    EXPECT_FALSE(one.interval);
    EXPECT_EQ(one.no_interval_because, "1 launch, and an interval needs 3");
  }
  for (const Estimate& two : {mean_of_launches({1, 3}), ratio_of_pairs({{1, 2}, {7, 2}}),
                              ratio_of_independent({3, 5}, {2, 2, 2})}) {
    EXPECT_DOUBLE_EQ(two.value, 2);
    EXPECT_FALSE(two.interval);
    EXPECT_EQ(two.no_interval_because, "2 launches, and an interval needs 3");
  }
}

// At either end of the interval the mean of a - r b is just as far from 0 as Student's t allows.
TEST(LaunchInterval, OfPairsHoldsTheRatiosThatStudentsTDoesNotRefuse) {
  const std::vector<LaunchPair> pairs{{4.1, 2.0}, {4.3, 2.2}, {3.7, 1.9}, {4.4, 2.1}};
  const Estimate ratio = ratio_of_pairs(pairs);
  EXPECT_NEAR(ratio.value, 16.5 / 8.2, 1e-12);
  ASSERT_TRUE(ratio.interval);
  const auto of_differences = [&](double r) {
    std::vector<double> differences;
    for (const LaunchPair& pair : pairs)
      differences.push_back(pair.numerator - r * pair.denominator);
    return *student_interval(differences);
  };
  EXPECT_NEAR(of_differences(ratio.interval->lo).lo, 0, 1e-9);
  EXPECT_NEAR(of_differences(ratio.interval->hi).hi, 0, 1e-9);
  EXPECT_TRUE(ratio.interval->contains(ratio.value));
}

TEST(LaunchInterval, WhatDisturbsBothOfAPairCancels) {
  // The second launch ran on a slower machine: times grow by a fifth, the ratio stays.
  const Estimate ratio = ratio_of_pairs({{2.2, 1.0}, {2.64, 1.2}, {2.2, 1.0}});
  EXPECT_NEAR(ratio.value, 2.2, 1e-12);
  EXPECT_NEAR(ratio.interval->lo, 2.2, 1e-6);
  EXPECT_NEAR(ratio.interval->hi, 2.2, 1e-6);
  // In runs that did not take turns, it does not cancel.
  const Estimate apart = ratio_of_independent({2.2, 2.64, 2.2}, {1.0, 1.2, 1.0});
  EXPECT_GT(apart.interval->hi - apart.interval->lo, 1);
}

TEST(LaunchInterval, OfIndependentRunsWithOneVarianceIsThePooledOneAtEqualCounts) {
  // b does not vary, so the interval is that of a over b, with a's degrees of freedom.
  const Estimate ratio = ratio_of_independent({1.95, 2.11, 1.94}, {2, 2, 2, 2});
  EXPECT_NEAR(ratio.interval->lo, 1.763028 / 2, 1e-6);
  EXPECT_NEAR(ratio.interval->hi, 2.236972 / 2, 1e-6);
  // Alike on both sides Welch's degrees are all there are: 4, and t is 2.776445.
  const Estimate even = ratio_of_independent({9, 10, 11}, {9, 10, 11});
  const double t = 2.776445;
  const double v = 1.0 / 3;
  const double square = 100 - t * t * v;
  EXPECT_NEAR(even.interval->hi, (100 + std::sqrt(100 * 100 - square * square)) / square, 1e-4);
}

TEST(LaunchInterval, IsWiderAtAHigherLevel) {
  const std::vector<LaunchPair> pairs{{4.1, 2.0}, {4.3, 2.2}, {3.7, 1.9}, {4.4, 2.1}};
  const auto width = [](const Estimate& estimate) {
    return estimate.interval->hi - estimate.interval->lo;
  };
  EXPECT_GT(width(ratio_of_pairs(pairs, 0.999)), 2 * width(ratio_of_pairs(pairs)));
  EXPECT_GT(width(ratio_of_independent({2, 3, 4}, {9, 9.1, 9.2}, 0.99)),
            width(ratio_of_independent({2, 3, 4}, {9, 9.1, 9.2})));
  EXPECT_GT(width(mean_of_launches({1, 2, 3}, 0.99)), width(mean_of_launches({1, 2, 3})));
}

TEST(LaunchInterval, HasNoUpperEndWhereTheDenominatorMayBeNothing) {
  const Estimate ratio = ratio_of_pairs({{1, 1}, {1, 30}, {1, 2}});
  EXPECT_FALSE(ratio.interval);
  EXPECT_THAT(ratio.no_interval_because, HasSubstr("vary too much"));
}

TEST(LaunchInterval, NoTimeIsBelowZero) {
  const Estimate ratio = ratio_of_pairs({{0.1, 1}, {3, 1}, {0.2, 1}});
  EXPECT_EQ(ratio.interval->lo, 0);
  EXPECT_THROW(ratio_of_pairs({{1, 0}}), InternalError);
  EXPECT_THROW(ratio_of_independent({1}, {-1}), InternalError);
}

constexpr int kCells = 2000;

// Returns the share of intervals that hold the truth, of a mean and of a ratio, over made cells.
struct Coverage {
  double mean = 0;
  double pairs = 0;
  double independent = 0;
};

// `noise` draws a launch's factor, of mean 1; what disturbs a launch disturbs both of a pair.
Coverage coverage(int launches, const std::function<double()>& noise) {
  constexpr double kRatio = 1.3;
  std::array<int, 3> held{};
  for (int cell = 0; cell < kCells; ++cell) {
    std::vector<double> a;
    std::vector<double> b;
    std::vector<double> other;
    std::vector<LaunchPair> pairs;
    for (int launch = 0; launch < launches; ++launch) {
      const double shared = noise();
      pairs.push_back({kRatio * shared * noise(), shared * noise()});
      a.push_back(kRatio * noise());
      other.push_back(noise());
      b.push_back(pairs.back().denominator);
    }
    held[0] += mean_of_launches(other).interval->contains(1) ? 1 : 0;
    const auto holds = [](const Estimate& ratio) {
      return !ratio.interval || ratio.interval->contains(kRatio);  // without an end: all ratios
    };
    held[1] += holds(ratio_of_pairs(pairs)) ? 1 : 0;
    held[2] += holds(ratio_of_independent(a, other)) ? 1 : 0;
  }
  const auto share = [](int count) { return static_cast<double>(count) / kCells; };
  return {share(held[0]), share(held[1]), share(held[2])};
}

TEST(LaunchInterval, Covers95PercentOfCellsWithNormalNoise) {
  for (const int launches : {3, 4, 8}) {
    Normal normal(static_cast<std::uint64_t>(launches));
    const Coverage held = coverage(launches, [&] { return 1 + 0.03 * normal(); });
    for (const double share : {held.mean, held.pairs, held.independent}) {
      EXPECT_GE(share, 0.93) << launches << " launches";
      EXPECT_LE(share, 0.97) << launches << " launches";
    }
  }
}

// Few launches of skewed times cannot know how long their tail is: here one in 40 takes 4 times
// as long as usual.
TEST(LaunchInterval, CoversMostCellsWithLognormalNoise) {
  constexpr double kSigma = 0.75;
  for (const int launches : {3, 4, 8}) {
    Normal normal(static_cast<std::uint64_t>(launches));
    const Coverage held =
        coverage(launches, [&] { return std::exp(kSigma * normal() - kSigma * kSigma / 2); });
    fmt::print(
        "lognormal noise, {} launches, {} cells: held by {:.3f} of means, {:.3f} of paired ratios, "
        "{:.3f} of others\n",
        launches, kCells, held.mean, held.pairs, held.independent);
    for (const double share : {held.mean, held.pairs, held.independent}) {
      EXPECT_GE(share, 0.85) << launches << " launches";
    }
  }
}

}  // namespace
}  // namespace gradsync::stats
