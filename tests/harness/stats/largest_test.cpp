#include "harness/stats/largest.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

namespace gradsync::stats {
namespace {

// Of two: 1 / sqrt(pi); of three: 3 / (2 sqrt(pi)). Of more by the tables of Harter, "Expected
// Values of Normal Order Statistics", 1961.
TEST(LargestNormal, IsThatOfTheTables) {
  EXPECT_NEAR(expected_largest_normal(1), 0, 1e-9);
  EXPECT_NEAR(expected_largest_normal(2), 1 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_largest_normal(3), 1.5 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_largest_normal(8), 1.42360, 1e-5);
  EXPECT_NEAR(expected_largest_normal(100), 2.50759, 1e-5);
}

}  // namespace
}  // namespace gradsync::stats
