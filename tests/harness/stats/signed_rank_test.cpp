#include "harness/stats/signed_rank.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

// Depression scores of nine patients before and after a first session, with their differences.
// Source: Hollander, Wolfe and Chicken, example 3.1, which finds T+ = 40 of 45 for before - after.
const std::vector<double> kBefore{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
const std::vector<double> kAfter{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};

std::vector<double> published_differences() {
  std::vector<double> differences;
  for (std::size_t i = 0; i < kBefore.size(); ++i) differences.push_back(kBefore[i] - kAfter[i]);
  return differences;
}

// The definition, written out: every way to give signs to the distances, one by one.
double by_enumeration(const std::vector<double>& differences) {
  const auto rank = [&](double distance) {
    double below = 0;
    double equal = 0;
    for (const double other : differences) {
      below += std::abs(other) < distance ? 1 : 0;
      equal += std::abs(other) == distance ? 1 : 0;
    }
    return below + (equal + 1) / 2;
  };
  std::vector<double> ranks;
  double seen = 0;
  for (const double difference : differences) {
    if (difference == 0) continue;
    ranks.push_back(rank(std::abs(difference)));
    if (difference > 0) seen += ranks.back();
  }
  int as_high = 0;
  const unsigned ways = 1U << ranks.size();
  for (unsigned signs = 0; signs < ways; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) sum += (signs >> i & 1U) != 0 ? ranks[i] : 0;
    as_high += sum >= seen ? 1 : 0;
  }
  return static_cast<double>(as_high) / ways;
}

TEST(SignedRank, AgreesWithThePublishedExample) {
  EXPECT_DOUBLE_EQ(signed_rank_p(published_differences()), 10.0 / 512);  // printed: 0.020
}

TEST(SignedRank, AllAboveIsOneWayOfTwoToTheN) {
  EXPECT_DOUBLE_EQ(signed_rank_p({0.1, 0.2, 0.3, 0.4, 0.5}), 1.0 / 32);
  EXPECT_DOUBLE_EQ(signed_rank_p({-0.1, -0.2, -0.3}), 1.0);
  EXPECT_DOUBLE_EQ(signed_rank_p({}), 1.0);
}

TEST(SignedRank, IsExactWithTiesAndZeros) {
  for (const auto& differences : std::vector<std::vector<double>>{
           {1, 1, -1, 2, 2, -3},
           {0, 0, 1, 2, -1},
           {0, 0, 0},
           {4, -4, 4, -4, 4, 1, 1, -2, 5, 6},
       }) {
    EXPECT_DOUBLE_EQ(signed_rank_p(differences), by_enumeration(differences));
  }
}

TEST(SignedRank, TheMarginIsWhereTheNullHypothesisLies) {
  const std::vector<double> differences{0.02, 0.03, 0.025, 0.035, 0.028};
  EXPECT_DOUBLE_EQ(signed_rank_p(differences, 0.01), 1.0 / 32);
  EXPECT_DOUBLE_EQ(signed_rank_p(differences, 0.04), 1.0);
  std::vector<double> moved = differences;
  for (double& difference : moved) difference -= 0.027;
  EXPECT_DOUBLE_EQ(signed_rank_p(differences, 0.027), by_enumeration(moved));
}

TEST(SignedRank, StaysAProbabilityForManyDifferences) {
  std::vector<double> differences;
  for (int i = 1; i <= 200; ++i) differences.push_back(i % 2 == 0 ? i : -i + 0.5);
  const double p = signed_rank_p(differences);
  EXPECT_GT(p, 0.4);
  EXPECT_LT(p, 0.6);
}

TEST(SignedRank, RefusesWhatIsNoNumber) {
  EXPECT_THROW(signed_rank_p({0.1, std::numeric_limits<double>::quiet_NaN()}), InternalError);
}

TEST(HodgesLehmann, AgreesWithThePublishedExample) {
  // Examples 3.3 and 3.4: 0.46; and of (.010, .786), the 37th and 9th of 45 means, 96.1 %.
  const Shift shift = hodges_lehmann(published_differences(), 0.95);
  EXPECT_NEAR(shift.value, 0.46, 5e-4);
  EXPECT_EQ(hodges_lehmann_value(published_differences()), shift.value);
  ASSERT_TRUE(shift.interval.has_value());
  EXPECT_NEAR(shift.interval->lo, 0.010, 1e-9);
  EXPECT_NEAR(shift.interval->hi, 0.786, 1e-9);
}

TEST(HodgesLehmann, TheIntervalHoldsWhatTheTestDoesNotRefuse) {
  const std::vector<double> differences{0.011, 0.042, -0.013, 0.035, 0.021, 0.0301, 0.0502, 0.0073};
  constexpr double kLevel = 0.9;
  const Shift shift = hodges_lehmann(differences, kLevel);
  std::vector<double> turned;
  for (const double difference : differences) turned.push_back(-difference);
  for (double margin = -0.0201; margin < 0.07; margin += 0.0007) {
    const bool refused = signed_rank_p(differences, margin) <= (1 - kLevel) / 2 ||
                         signed_rank_p(turned, -margin) <= (1 - kLevel) / 2;
    EXPECT_EQ(shift.interval->contains(margin), !refused) << margin;
  }
}

TEST(HodgesLehmann, TooFewDifferencesHaveNoInterval) {
  EXPECT_FALSE(hodges_lehmann({1, 2, 3, 4, 5}, 0.95).interval.has_value());
  EXPECT_TRUE(hodges_lehmann({1, 2, 3, 4, 5, 6}, 0.95).interval.has_value());
  EXPECT_DOUBLE_EQ(hodges_lehmann({3}).value, 3);
}

}  // namespace
}  // namespace gradsync::stats
