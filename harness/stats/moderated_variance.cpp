#include "harness/stats/moderated_variance.h"

#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>
#include <limits>

#include "harness/base/errors.h"
#include "harness/stats/sample.h"

namespace gradsync::stats {
namespace {

constexpr double kSmallestShareOfMedian = 1e-5;

// Returns y with trigamma(y) = x > 0, by Newton's method on 1 / trigamma, which is nearly straight
// and convex: it converges from below, from any start. Source: Smyth 2004, appendix.
double trigamma_inverse(double x) {
  double y = 0.5 + 1.0 / x;
  for (int i = 0; i < 50; ++i) {
    const double trigamma = boost::math::trigamma(y);
    const double step = trigamma * (1 - trigamma / x) / boost::math::polygamma(2, y);
    y += step;
    if (std::abs(step) < 1e-10 * y) break;
  }
  return y;
}

double sum_of_degrees(const std::vector<Variance>& variances) {
  double sum = 0;
  for (const Variance& variance : variances) sum += variance.degrees;
  return sum;
}

double pooled(const std::vector<Variance>& variances) {
  double sum = 0;
  for (const Variance& variance : variances) sum += variance.value * variance.degrees;
  return sum / sum_of_degrees(variances);
}

// What all have in common; infinite degrees where they differ by no more than chance.
Variance common(const std::vector<Variance>& variances) {
  std::vector<double> logs;  // each with the expectation log(common)
  std::vector<double> by_chance;
  for (const Variance& variance : variances) {
    const double half = variance.degrees / 2;
    logs.push_back(std::log(variance.value) - boost::math::digamma(half) + std::log(half));
    by_chance.push_back(boost::math::trigamma(half));
  }
  const double sd = *summarize(logs)->sd;
  const double beyond_chance = sd * sd - mean(by_chance);
  if (beyond_chance <= 0) return {pooled(variances), std::numeric_limits<double>::infinity()};
  const double half = trigamma_inverse(beyond_chance);
  return {std::exp(mean(logs) + boost::math::digamma(half) - std::log(half)), 2 * half};
}

double median_of(const std::vector<Variance>& variances) {
  std::vector<double> values;
  for (const Variance& variance : variances) values.push_back(variance.value);
  return quantile(values, 0.5);
}

}  // namespace

std::vector<Variance> moderated_variances(std::vector<Variance> variances) {
  for (const Variance& variance : variances) {
    GRADSYNC_CHECK(variance.value, >=, 0.0);
    GRADSYNC_CHECK(variance.degrees, >, 0.0);
  }
  if (variances.size() < 2) return variances;
  const double median = median_of(variances);
  if (median == 0) return variances;
  for (Variance& variance : variances) {
    variance.value = std::max(variance.value, kSmallestShareOfMedian * median);
  }
  const Variance prior = common(variances);
  const double all_degrees = sum_of_degrees(variances);
  for (Variance& variance : variances) {
    if (std::isinf(prior.degrees)) {
      variance = {prior.value, all_degrees};
      continue;
    }
    const double degrees = variance.degrees + prior.degrees;
    variance.value = (variance.value * variance.degrees + prior.value * prior.degrees) / degrees;
    variance.degrees = std::min(degrees, all_degrees);
  }
  return variances;
}

}  // namespace gradsync::stats
