#include "harness/stats/variance_components.h"

#include <gmock/gmock.h>

namespace gradsync::stats {
namespace {

TEST(VarianceComponents, AgreeWithThePublishedExample) {
  // Calcium in turnip greens, four determinations on each of four leaves. Source: Snedecor and
  // Cochran, section 13.3, which finds 0.0066 within a leaf and 0.0724 between leaves.
  const auto components = variance_components({{3.28, 3.09, 3.03, 3.03},
                                               {3.52, 3.48, 3.38, 3.38},
                                               {2.88, 2.80, 2.81, 2.76},
                                               {3.34, 3.38, 3.23, 3.26}});
  EXPECT_NEAR(*components.within, 0.0066, 5e-5);
  EXPECT_NEAR(*components.between, 0.0724, 5e-5);
}

TEST(VarianceComponents, GroupsOfDifferentSizesByHand) {
  // Levels 2, 6 and 5 of sizes 2, 3 and 1; overall 27 / 6 = 4.5. Squares within: 2 + 2 + 0 over 3.
  // Between: (2 x 6.25 + 3 x 2.25 + 1 x 0.25) / 2 = 9.75. Size: (6 - 14 / 6) / 2 = 11 / 6.
  const auto components = variance_components({{1, 3}, {5, 6, 7}, {5}, {}});
  EXPECT_NEAR(*components.within, 4.0 / 3, 1e-12);
  EXPECT_NEAR(*components.between, (9.75 - 4.0 / 3) * 6 / 11, 1e-12);
}

TEST(VarianceComponents, GroupsThatAgreeBetterThanChanceDoNotVary) {
  EXPECT_EQ(*variance_components({{1, 3}, {0, 4}}).between, 0);
}

TEST(VarianceComponents, WhatCannotBeKnownIsAbsent) {
  EXPECT_FALSE(variance_components({}).within.has_value());
  EXPECT_FALSE(variance_components({{1}, {2}}).within.has_value());
  const auto one_group = variance_components({{1, 3}});
  EXPECT_EQ(*one_group.within, 2);
  EXPECT_FALSE(one_group.between.has_value());
}

}  // namespace
}  // namespace gradsync::stats
