#include "harness/stats/launch_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/errors.h"
#include "harness/stats/sample.h"
#include "harness/stats/student.h"

namespace gradsync::stats {
namespace {

Estimate without_interval(double value, std::string because) {
  return {value, std::nullopt, std::move(because)};
}

// "" where there are enough.
std::string why_too_few(std::size_t launches) {
  if (launches >= kFewestLaunches) return "";
  if (launches == 0) return "nothing was measured";
  return fmt::format("{} {}, and an interval needs {}", launches,
                     launches == 1 ? "launch" : "launches", kFewestLaunches);
}

// Two means, and the variances and covariance of their errors.
struct Means {
  double a = 0;
  double b = 0;
  double var_a = 0;
  double var_b = 0;
  double covar = 0;
};

// The values r for which |a - r b| <= t sd(a - r b): between the roots of a quadratic in r, where
// b is far enough from 0 for it to have an upper end.
Estimate fieller(const Means& means, double t) {
  const double value = means.a / means.b;
  const double square = means.b * means.b - t * t * means.var_b;
  const double middle = means.a * means.b - t * t * means.covar;
  const double constant = means.a * means.a - t * t * means.var_a;
  if (!(square > 0)) {
    return without_interval(value, "the launches of what it is compared with vary too much");
  }
  const double root = std::sqrt(std::max(0.0, middle * middle - square * constant));
  return {
      value,
      Interval{std::max(0.0, (middle - root) / square), std::max(0.0, (middle + root) / square)},
      ""};
}

double error_variance(const std::vector<double>& values) {
  const double sd = summarize(values)->sd.value_or(0);
  return sd * sd / static_cast<double>(values.size());
}

double error_covariance(const std::vector<LaunchPair>& pairs, const Means& means) {
  double sum = 0;
  for (const LaunchPair& pair : pairs) {
    sum += (pair.numerator - means.a) * (pair.denominator - means.b);
  }
  const auto n = static_cast<double>(pairs.size());
  return sum / (n - 1) / n;
}

void check_positive(double denominator) {
  GRADSYNC_CHECK(denominator, >, 0.0);
}

// Welch's, of a sum of two variances known with these degrees each.
double welch_degrees(double one, double degrees_of_one, double other, double degrees_of_other) {
  const double sum = one + other;
  if (!(sum > 0)) return degrees_of_one + degrees_of_other;
  return sum * sum / (one * one / degrees_of_one + other * other / degrees_of_other);
}

}  // namespace

Estimate mean_of_launches(const std::vector<double>& launch_means, double level) {
  const double value = launch_means.empty() ? 0 : mean(launch_means);
  if (std::string because = why_too_few(launch_means.size()); !because.empty()) {
    return without_interval(value, std::move(because));
  }
  return {value, student_interval(launch_means, level), ""};
}

Estimate ratio_of_pairs(const std::vector<LaunchPair>& pairs, double level) {
  std::vector<double> numerator;
  std::vector<double> denominator;
  for (const LaunchPair& pair : pairs) {
    check_positive(pair.denominator);
    numerator.push_back(pair.numerator);
    denominator.push_back(pair.denominator);
  }
  if (pairs.empty()) return without_interval(0, why_too_few(0));
  Means means{mean(numerator), mean(denominator)};
  if (std::string because = why_too_few(pairs.size()); !because.empty()) {
    return without_interval(means.a / means.b, std::move(because));
  }
  means.var_a = error_variance(numerator);
  means.var_b = error_variance(denominator);
  means.covar = error_covariance(pairs, means);
  return fieller(means, student_t(static_cast<double>(pairs.size()) - 1, level));
}

Estimate ratio_of_independent(const std::vector<double>& numerator,
                              const std::vector<double>& denominator, double level) {
  std::for_each(denominator.begin(), denominator.end(), check_positive);
  const std::size_t fewer = std::min(numerator.size(), denominator.size());
  if (fewer == 0) return without_interval(0, why_too_few(0));
  Means means{mean(numerator), mean(denominator)};
  const double ratio = means.a / means.b;
  if (std::string because = why_too_few(fewer); !because.empty()) {
    return without_interval(ratio, std::move(because));
  }
  means.var_a = error_variance(numerator);
  means.var_b = error_variance(denominator);
  const double degrees =
      welch_degrees(means.var_a, static_cast<double>(numerator.size()) - 1,
                    ratio * ratio * means.var_b, static_cast<double>(denominator.size()) - 1);
  return fieller(means, student_t(degrees, level));
}

}  // namespace gradsync::stats
