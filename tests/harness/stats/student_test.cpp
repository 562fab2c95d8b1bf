#include "harness/stats/student.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace gradsync::stats {
namespace {

TEST(Student, QuantilesAgreeWithThePrintedTable) {
  // Any statistics textbook's table of the t distribution, two-sided 95 %.
  EXPECT_NEAR(student_t(1, 0.95), 12.706, 5e-4);
  EXPECT_NEAR(student_t(2, 0.95), 4.303, 5e-4);
  EXPECT_NEAR(student_t(30, 0.95), 2.042, 5e-4);
  EXPECT_NEAR(student_t(2, 0.99), 9.925, 5e-4);
}

TEST(Student, TwoDegreesHaveAClosedForm) {
  // For 2 degrees P(|T| <= t) = t / sqrt(2 + t^2), so t = sqrt(2 p^2 / (1 - p^2)).
  const double p = 0.95;
  EXPECT_NEAR(student_t(2, p), std::sqrt(2 * p * p / (1 - p * p)), 1e-10);
}

TEST(Student, TheTailIsWhatIsLeftAboveTheQuantile) {
  EXPECT_NEAR(student_tail(4.5, student_t(4.5, 0.95)), 0.025, 1e-12);
  EXPECT_NEAR(student_tail(2, 3.0), (1 - 3.0 / std::sqrt(11.0)) / 2, 1e-12);  // the closed form
  EXPECT_EQ(student_tail(3, std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(student_tail(3, -std::numeric_limits<double>::infinity()), 1);
}

TEST(Student, IntervalOfThreePublishedRuns) {
  // Mean 2.00, deviations -0.05, 0.11, -0.06: s^2 = 0.0182 / 2, half = 4.302653 s / sqrt(3).
  const auto interval = student_interval({1.95, 2.11, 1.94});
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(interval->lo, 1.763028, 1e-6);
  EXPECT_NEAR(interval->hi, 2.236972, 1e-6);
  EXPECT_TRUE(interval->contains(2.018));
  EXPECT_FALSE(interval->contains(1.7));
}

TEST(Student, OneRunHasNoInterval) {
  EXPECT_FALSE(student_interval({1.0}).has_value());
}

}  // namespace

namespace {

// For two: 1 / sqrt(pi); for three: 3 / (2 sqrt(pi)). For more: the tables of Harter, "Expected
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
