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

}  // namespace
}  // namespace gradsync::stats
