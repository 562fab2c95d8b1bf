#include "harness/account/sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace gradsync::account {
namespace {

std::vector<double> draw(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> numbers(count);
  for (double& number : numbers) number = normal(engine);
  return numbers;
}

TEST(Sketch, IsLinearAndShardsAddUp) {
  const auto numbers = draw(10'000, 1);
  const Sketch whole = sketch_of(numbers);
  for (const std::size_t cut : {1UL, 64UL, 4096UL, 5001UL}) {
    Sketch sum = sketch_of(std::span(numbers).first(cut));
    add(sum, sketch_of(std::span(numbers).subspan(cut), static_cast<std::int64_t>(cut)));
    EXPECT_LT(squared_distance(sum, whole), 1e-20) << cut;
  }
}

// hook_test.py has the same signs of the hook's.
TEST(Sketch, SignsAreThoseOfTheHook) {
  std::string signs;
  for (std::int64_t i = 0; i < 40; ++i) signs += sketch_sign(i * 1021) > 0 ? '+' : '-';
  EXPECT_EQ(signs, "-+++++-+--++++-+----+-+++--+-++--++-++-+");
}

TEST(Sketch, SignsAreAsOftenPlusAsMinusAlongRowsAndDownColumns) {
  for (const std::int64_t stride : {std::int64_t{1}, kSketchRow, kSketchRow + 1}) {
    int sum = 0;
    for (std::int64_t i = 0; i < 4096; ++i) sum += sketch_sign(i * stride);
    EXPECT_LT(std::abs(sum), 4 * 64) << stride;  // four standard deviations
  }
}

// With 64 buckets the length is good to sqrt(2 / 64) = 18 %.
TEST(Sketch, KeepsLengthsOnAverageWithTheDeviationOf64Buckets) {
  constexpr int kTrials = 400;
  double sum = 0;
  double squares = 0;
  for (unsigned seed = 0; seed < kTrials; ++seed) {
    const auto numbers = draw(3000, seed);
    double length = 0;
    for (const double each : numbers) length += each * each;
    const double ratio = squared_length(sketch_of(numbers)) / length;
    sum += ratio;
    squares += ratio * ratio;
  }
  const double mean = sum / kTrials;
  EXPECT_NEAR(mean, 1, 0.03);
  EXPECT_NEAR(std::sqrt(squares / kTrials - mean * mean), std::sqrt(2.0 / 64), 0.03);
}

}  // namespace
}  // namespace gradsync::account
