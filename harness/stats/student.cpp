#include "harness/stats/student.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numbers>

#include "harness/base/errors.h"
#include "harness/stats/sample.h"

namespace gradsync::stats {
namespace {

// In double throughout: long double, Boost's default, is several times slower for digits that no
// level or p-value needs.
using Students = boost::math::students_t_distribution<
    double, boost::math::policies::policy<boost::math::policies::promote_double<false>>>;

}  // namespace

double student_t(double degrees, double level) {
  GRADSYNC_CHECK(degrees, >, 0.0);
  GRADSYNC_CHECK(level, >, 0.0);
  GRADSYNC_CHECK(level, <, 1.0);
  const Students distribution(degrees);
  return boost::math::quantile(boost::math::complement(distribution, (1.0 - level) / 2.0));
}

double student_tail(double degrees, double t) {
  GRADSYNC_CHECK(degrees, >, 0.0);
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  const Students distribution(degrees);
  return boost::math::cdf(boost::math::complement(distribution, t));
}

std::optional<Interval> student_interval(const std::vector<double>& runs, double level) {
  if (runs.size() < 2) return std::nullopt;
  const auto summary = summarize(runs);
  const auto n = static_cast<double>(summary->n);
  const double half = student_t(n - 1, level) * *summary->sd / std::sqrt(n);
  return Interval{summary->mean - half, summary->mean + half};
}

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
