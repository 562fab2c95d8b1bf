#include "harness/stats/largest.h"

#include <cmath>
#include <numbers>

#include "harness/base/errors.h"

namespace gradsync::stats {

double expected_largest_normal(int count) {
  GRADSYNC_CHECK(count, >, 0);
  constexpr double kFar = 12;  // deviations; beyond lies less than 1e-32
  constexpr int kSteps = 4800;
  constexpr double kWidth = 2 * kFar / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = -kFar + i * kWidth;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double below = std::erfc(-x / std::numbers::sqrt2) / 2;
    sum += x * count * density * std::pow(below, count - 1);
  }
  return sum * kWidth;
}

}  // namespace gradsync::stats
