#include "harness/stats/sample.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

TEST(Summary, OfEightHandWorkedValues) {
  // Sum 40, squared deviations 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, sample variance 32 / 7.
  const auto summary = summarize({2, 4, 4, 4, 5, 5, 7, 9});
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->n, 8U);
  EXPECT_DOUBLE_EQ(summary->mean, 5.0);
  EXPECT_DOUBLE_EQ(summary->median, 4.5);
  EXPECT_DOUBLE_EQ(*summary->sd, std::sqrt(32.0 / 7.0));
  EXPECT_DOUBLE_EQ(summary->min, 2.0);
  EXPECT_DOUBLE_EQ(summary->max, 9.0);
}

TEST(Summary, OneValueHasNoDeviationAndNoneHasNoSummary) {
  EXPECT_FALSE(summarize({3.0})->sd.has_value());
  EXPECT_FALSE(summarize({}).has_value());
}

TEST(Summary, DeviationSurvivesALargeOffset) {
  EXPECT_DOUBLE_EQ(*summarize({1e9 + 1, 1e9 + 2, 1e9 + 3})->sd, 1.0);
}

TEST(Summary, RefusesWhatIsNotFinite) {
  EXPECT_THROW(summarize({1.0, std::numeric_limits<double>::quiet_NaN()}), InternalError);
}

TEST(Quantile, InterpolatesAsRule7) {
  // Sorted 1 2 3 10; positions 0.75, 1.5 and 2.7: 1.75, 2.5 and 3 + 0.7 x 7. NumPy agrees.
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 10}, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 10}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 10}, 0.9), 7.9);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 10}, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 10}, 1.0), 10.0);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7.0);
}

// Example 3.3 of Hollander, Wolfe and Chicken: depression scores of nine patients before and after
// a first session, less by 0.46.
TEST(HodgesLehmann, AgreesWithThePublishedExample) {
  const std::vector<double> before{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
  const std::vector<double> after{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
  std::vector<double> differences;
  for (std::size_t i = 0; i < before.size(); ++i) differences.push_back(before[i] - after[i]);
  EXPECT_NEAR(hodges_lehmann(differences), 0.46, 5e-4);
}

TEST(HodgesLehmann, IsTheMedianOfTheMeansOfAllPairs) {
  EXPECT_DOUBLE_EQ(hodges_lehmann({3}), 3);
  EXPECT_DOUBLE_EQ(hodges_lehmann({0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(hodges_lehmann({0, 1, 8}), 2.5) << "of 0, 0.5, 1, 4, 4.5 and 8";
}

}  // namespace
}  // namespace gradsync::stats
