#include "harness/stats/rank_sum.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

// R and SciPy print two-sided values by default: twice the smaller side.
double two_sided(const std::vector<double>& a, const std::vector<double>& b) {
  return std::min(1.0, 2 * std::min(rank_sum_p(a, b), rank_sum_p(b, a)));
}

// The definition, written out: every way to choose which of the values are the sample.
double by_enumeration(const std::vector<double>& sample, const std::vector<double>& reference) {
  std::vector<double> all = sample;
  all.insert(all.end(), reference.begin(), reference.end());
  std::sort(all.begin(), all.end());
  const auto rank_of = [&](double value) {
    return std::lower_bound(all.begin(), all.end(), value) - all.begin() + 1;
  };
  std::ptrdiff_t seen = 0;
  for (const double value : sample) seen += rank_of(value);
  int ways = 0;
  int as_high = 0;
  for (unsigned chosen = 0; chosen < 1U << all.size(); ++chosen) {
    std::ptrdiff_t sum = 0;
    std::size_t size = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1U) == 0) continue;
      sum += static_cast<std::ptrdiff_t>(i) + 1;
      ++size;
    }
    if (size != sample.size()) continue;
    ++ways;
    as_high += sum >= seen ? 1 : 0;
  }
  return static_cast<double>(as_high) / ways;
}

TEST(RankSum, AgreesWithThePublishedExample) {
  // Permeability of the placental membrane at term and at 12 to 26 weeks: Hollander, Wolfe and
  // Chicken, example 4.1; R's wilcox.test prints W = 35, p-value = 0.1272.
  const std::vector<double> at_term{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
  const std::vector<double> early{1.15, 0.88, 0.90, 0.74, 1.21};
  EXPECT_NEAR(rank_sum_p(at_term, early), 0.1272, 5e-5);
}

TEST(RankSum, AgreesWithScipysExample) {
  // Ages at the diagnosis of diabetes; scipy.stats.mannwhitneyu documents U = 17, p = 0.1111.
  EXPECT_NEAR(two_sided({19, 22, 16, 29, 24}, {20, 11, 17, 12}), 14.0 / 126, 1e-12);
}

TEST(RankSum, IsExactWithoutTies) {
  for (const auto& [sample, reference] :
       std::vector<std::pair<std::vector<double>, std::vector<double>>>{
           {{1.5}, {1, 2, 3}},
           {{5, 1, 9}, {2, 3}},
           {{0.1, 0.7, 0.4, 0.9}, {0.2, 0.3, 0.5, 0.6, 0.8}},
           {{8, 9, 10, 11, 12}, {1, 2, 3, 4, 5, 6, 7}},
       }) {
    EXPECT_NEAR(rank_sum_p(sample, reference), by_enumeration(sample, reference), 1e-12);
    EXPECT_NEAR(rank_sum_p(reference, sample), by_enumeration(reference, sample), 1e-12);
  }
}

TEST(RankSum, AllAboveIsOneWayOfTheBinomialCoefficient) {
  EXPECT_NEAR(rank_sum_p({4, 5, 6}, {1, 2, 3}), 1.0 / 20, 1e-12);
  EXPECT_NEAR(rank_sum_p({1, 2, 3}, {4, 5, 6}), 1.0, 1e-12);
}

TEST(RankSum, TiesGoToTheCorrectedNormalApproximation) {
  // R's wilcox.test with ties, two-sided: W = 51.5 and 0.5966; W = 0 and 0.001364.
  const std::vector<double> x{1, 5, 9, 24, 56, 21, 3, 7, 21, 4};
  EXPECT_NEAR(two_sided(x, {12, 15, 5, 9, 9, 14, 56, 22, 3, 7, 32, 5}), 0.5966, 5e-5);
  EXPECT_NEAR(two_sided(x, {1233, 4356, 987, 39999, 1111, 200000}), 0.001364, 5e-7);
}

TEST(RankSum, EqualValuesSayNothing) {
  EXPECT_EQ(rank_sum_p({2, 2, 2}, {2, 2}), 1);
  EXPECT_EQ(rank_sum_p({}, {1, 2}), 1);
  EXPECT_EQ(rank_sum_p({1, 2}, {}), 1);
}

// Two samples that interleave, the first shifted up by `shift` places.
double interleaved(std::size_t size, double shift) {
  std::vector<double> sample;
  std::vector<double> reference;
  for (std::size_t i = 0; i < size; ++i) {
    sample.push_back(static_cast<double>(i) + shift + 0.5);
    reference.push_back(static_cast<double>(i));
  }
  return rank_sum_p(sample, reference);
}

TEST(RankSum, TheApproximationTakesOverWhereItIsClose) {
  const double exact = interleaved(kExactRankSum - 1, 4);
  EXPECT_NEAR(exact, interleaved(kExactRankSum, 4), 0.05 * exact);
  EXPECT_LT(interleaved(400, 40), 0.01);
}

TEST(RankSum, RefusesWhatIsNoNumber) {
  EXPECT_THROW(rank_sum_p({1, std::nan("")}, {2}), InternalError);
  EXPECT_THROW(rank_sum_p({1}, {std::numeric_limits<double>::infinity()}), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
