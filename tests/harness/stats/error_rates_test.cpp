#include "harness/stats/error_rates.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/stats/random.h"

namespace gradsync::stats {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Holm, AdjustsByHand) {
  // Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, and never less than the one before.
  EXPECT_THAT(holm_adjusted({0.04, 0.01, 0.03, 0.02}),
              ElementsAre(DoubleEq(0.06), DoubleEq(0.04), DoubleEq(0.06), DoubleEq(0.06)));
  EXPECT_THAT(holm_adjusted({0.6, 0.5}), ElementsAre(DoubleEq(1.0), DoubleEq(1.0)));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

TEST(Holm, RefusesWhatIsNoProbability) {
  EXPECT_THROW(holm_adjusted({0.5, 1.5}), InternalError);
}

TEST(RateInterval, AgreesWithPrintedTables) {
  // Two-sided 95 % for 3 of 20: any table of exact binomial limits.
  const Interval some = rate_interval(3, 20);
  EXPECT_NEAR(some.lo, 0.0321, 5e-5);
  EXPECT_NEAR(some.hi, 0.3789, 5e-5);
}

TEST(RateInterval, NothingSeenBoundsTheRateFromAbove) {
  // (1 - rate)^trials = 0.05 has the solution 1 - 0.05^(1 / trials).
  EXPECT_NEAR(rate_interval(0, 299).hi, 0.009969, 5e-7);  // so 299 trials show at most 1 %
  EXPECT_GT(rate_interval(0, 298).hi, 0.01);
  EXPECT_EQ(rate_interval(0, 299).lo, 0);
  EXPECT_NEAR(rate_interval(299, 299).lo, 1 - 0.009969, 5e-7);
  EXPECT_EQ(rate_interval(299, 299).hi, 1);
}

TEST(RateInterval, OneSeenNeeds473Trials) {
  // An upper bound of 1 % is 95 % one-sided: 90 % two-sided.
  EXPECT_LE(rate_interval(1, 473, 0.90).hi, 0.01);
  EXPECT_GT(rate_interval(1, 472, 0.90).hi, 0.01);
}

TEST(ShareInterval, OfWholeSharesIsThatOfTheirCount) {
  std::vector<double> shares(20, 0.0);
  const Interval none = share_interval(shares);
  EXPECT_EQ(none.lo, 0);
  EXPECT_DOUBLE_EQ(none.hi, rate_interval(0, 20).hi);
  shares[0] = shares[7] = shares[12] = 1;
  EXPECT_DOUBLE_EQ(share_interval(shares).lo, rate_interval(3, 20).lo);
  EXPECT_DOUBLE_EQ(share_interval(shares).hi, rate_interval(3, 20).hi);
}

TEST(ShareInterval, KnowsOfGatesAndNotOfTheirLabellings) {
  const std::vector<double> rare(30, 0.001);  // one labelling in a thousand, in every gate
  EXPECT_GT(share_interval(rare).hi, 0.09);
  EXPECT_LT(share_interval(rare).lo, 0.001);
}

// Shares of gates most of which never alarm, and few of which do so half the time: what Student's t
// is poor at.
TEST(ShareInterval, CoversWhereMostSharesAreNothing) {
  Random random(42);
  constexpr int kIntervals = 2000;
  constexpr double kMean = 0.05 * 0.5;
  int covered = 0;
  for (int i = 0; i < kIntervals; ++i) {
    std::vector<double> shares(30);
    for (double& share : shares) share = random.below(20) == 0 ? 0.5 : 0.0;
    const Interval interval = share_interval(shares);
    covered += interval.lo <= kMean && kMean <= interval.hi ? 1 : 0;
  }
  EXPECT_GE(covered, 0.95 * kIntervals);
}

TEST(ShareInterval, RefusesWhatIsNoShare) {
  EXPECT_THROW(share_interval({}), InternalError);
  EXPECT_THROW(share_interval({0.5, 1.5}), InternalError);
}

TEST(RateInterval, RefusesImpossibleCounts) {
  EXPECT_THROW(rate_interval(1, 0), InternalError);
  EXPECT_THROW(rate_interval(2, 1), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
