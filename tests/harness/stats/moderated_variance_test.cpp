#include "harness/stats/moderated_variance.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

TEST(ModeratedVariance, OneStaysAsItIs) {
  const auto moderated = moderated_variances({{4.0, 3.0}});
  EXPECT_EQ(moderated[0].value, 4.0);
  EXPECT_EQ(moderated[0].degrees, 3.0);
  EXPECT_TRUE(moderated_variances({}).empty());
}

TEST(ModeratedVariance, ThoseThatAgreeBecomeOne) {
  // No spread beyond chance: (4 x 1 + 4 x 1.2 + 8 x 1.1) / 16, with all 16 degrees.
  const auto moderated = moderated_variances({{1.0, 4.0}, {1.2, 4.0}, {1.1, 8.0}});
  for (const Variance& variance : moderated) {
    EXPECT_NEAR(variance.value, 17.6 / 16, 1e-12);
    EXPECT_EQ(variance.degrees, 16.0);
  }
}

TEST(ModeratedVariance, ThoseThatDifferKeepWhatIsTheirs) {
  // Two logarithms `apart` have the variance apart^2 / 2. With 4 degrees chance makes
  // trigamma(2) = pi^2 / 6 - 1 of it. Chosen so that trigamma(1) = pi^2 / 6 is left: that is a
  // prior of 2 degrees, worth exp(apart / 2 - digamma(2) + log 2 + digamma(1) - log 1) = 2
  // exp(apart / 2 - 1), because digamma(2) - digamma(1) = 1.
  const double trigamma_1 = std::acos(-1.0) * std::acos(-1.0) / 6;
  const double apart = std::sqrt(2 * (2 * trigamma_1 - 1));
  const double prior = 2 * std::exp(apart / 2 - 1);
  const auto moderated = moderated_variances({{1.0, 4.0}, {std::exp(apart), 4.0}});
  EXPECT_NEAR(moderated[0].value, (4 * 1.0 + 2 * prior) / 6, 1e-9);
  EXPECT_NEAR(moderated[1].value, (4 * std::exp(apart) + 2 * prior) / 6, 1e-9);
  EXPECT_NEAR(moderated[0].degrees, 6, 1e-9);
}

TEST(ModeratedVariance, DegreesAreNeverMoreThanAllTogetherHave) {
  const auto moderated = moderated_variances({{1.0, 4.0}, {3.1, 4.0}});
  for (const Variance& variance : moderated) {
    EXPECT_GT(variance.degrees, 4.0);
    EXPECT_LE(variance.degrees, 8.0);
  }
}

TEST(ModeratedVariance, ZerosCountAsAShareOfTheMedian) {
  const auto moderated = moderated_variances({{0.0, 2.0}, {1.0, 2.0}, {1.0, 2.0}});
  EXPECT_GT(moderated[0].value, 0.0);
  EXPECT_TRUE(std::isfinite(moderated[0].value));
  for (const Variance& variance : moderated_variances({{0.0, 2.0}, {0.0, 2.0}})) {
    EXPECT_EQ(variance.value, 0.0);
    EXPECT_EQ(variance.degrees, 2.0);
  }
}

TEST(ModeratedVariance, RefusesWhatIsNoVariance) {
  EXPECT_THROW(moderated_variances({{-1.0, 2.0}}), InternalError);
  EXPECT_THROW(moderated_variances({{1.0, 0.0}}), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
