// Cases worked by hand, and by drawing.
#include "harness/stats/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gradsync::stats {
namespace {

std::vector<double> draw(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> numbers(count);
  for (double& number : numbers) number = normal(engine);
  return numbers;
}

Equations equations_of(const std::vector<std::vector<double>>& rows,
                       const std::vector<double>& right) {
  Equations equations(rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i) equations.add(rows[i], right[i]);
  return equations;
}

TEST(SymmetricEigen, OfAMatrixWorkedByHand) {
  // [[2, 1], [1, 2]] has 1 with (1, -1) and 3 with (1, 1).
  const EigenSystem eigen = symmetric_eigen({2, 1, 1, 2}, 2);
  EXPECT_NEAR(eigen.values[0], 1, 1e-12);
  EXPECT_NEAR(eigen.values[1], 3, 1e-12);
  EXPECT_NEAR(eigen.vectors[0] * eigen.vectors[1], -0.5, 1e-12);
  EXPECT_NEAR(eigen.vectors[2] * eigen.vectors[3], 0.5, 1e-12);
}

TEST(Equations, AreSolvedExactlyWhereNothingIsLeftOver) {
  const Fit fit = equations_of({{1, 0}, {0, 2}, {1, 1}}, {3, -4, 1}).solve();
  EXPECT_NEAR(fit.estimates[0].weight, 3, 1e-9);
  EXPECT_NEAR(fit.estimates[1].weight, -2, 1e-9);
  EXPECT_LT(fit.left_over, 1e-7);
}

// One unknown, y = (1, 3) against (1, 1): w = 2, rest (-1, 1), s^2 = 2 / 1, error = sqrt(2 / 2)
// = 1.
TEST(Equations, SayHowFarTheWeightsAreKnown) {
  const Fit fit = equations_of({{1}, {1}}, {1, 3}).solve();
  EXPECT_NEAR(fit.estimates[0].weight, 2, 1e-12);
  EXPECT_NEAR(fit.estimates[0].error, 1, 1e-12);
  EXPECT_NEAR(fit.left_over, std::sqrt(2.0 / 10), 1e-12);
}

// Two unit columns with cosine c: eigenvalues 1 + c and 1 - c.
TEST(Equations, ConditionIsThatOfTheColumns) {
  const double c = 0.8;
  const Fit fit = equations_of({{1, c}, {0, std::sqrt(1 - c * c)}}, {1, 1}).solve();
  EXPECT_NEAR(fit.condition, std::sqrt((1 + c) / (1 - c)), 1e-9);
}

TEST(Equations, EqualColumnsAreNotToldApart) {
  const Fit fit = equations_of({{1, 1, 0}, {2, 2, 1}, {0, 0, 3}}, {3, 7, 3}).solve();
  EXPECT_EQ(fit.estimates[0].kind, FittedWeight::Kind::Apart);
  EXPECT_EQ(fit.estimates[0].together, fit.estimates[1].together);
  EXPECT_NEAR(fit.estimates[0].weight + fit.estimates[1].weight, 3, 1e-9);  // their sum is known
  EXPECT_EQ(fit.estimates[2].kind, FittedWeight::Kind::Known);
  EXPECT_TRUE(std::isinf(fit.condition));
}

TEST(Equations, AColumnOfNothingIsAbsent) {
  const Fit fit = equations_of({{1, 0}, {1, 0}}, {2, 2}).solve();
  EXPECT_EQ(fit.estimates[1].kind, FittedWeight::Kind::Absent);
  EXPECT_NEAR(fit.condition, 1, 1e-12);
}

// A foreign part of share q moves each weight by about q sqrt(1 / equations), as account.h says,
// and the errors that are given cover it.
TEST(Equations, ErrorsCoverWhatAForeignPartDoes) {
  constexpr std::size_t kUnknowns = 8;
  constexpr std::size_t kCount = 640;
  int outside = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto numbers = draw(kCount * (kUnknowns + 1), seed);
    Equations equations(kUnknowns);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto row = std::span(numbers).subspan(i * (kUnknowns + 1), kUnknowns);
      double right = 0.3 * numbers[i * (kUnknowns + 1) + kUnknowns];
      for (const double each : row) right += each;
      equations.add(row, right);
    }
    const Fit fit = equations.solve();
    EXPECT_NEAR(fit.left_over, 0.3 / std::sqrt(8.09), 0.02);
    for (const FittedWeight& each : fit.estimates) {
      EXPECT_NEAR(each.error, 0.3 / std::sqrt(kCount), 0.003);
      outside += std::abs(each.weight - 1) > 3 * each.error ? 1 : 0;
    }
  }
  EXPECT_LE(outside, 8);  // of 400, one expected
}

}  // namespace
}  // namespace gradsync::stats
