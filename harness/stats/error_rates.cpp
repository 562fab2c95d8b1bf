#include "harness/stats/error_rates.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cstddef>
#include <numeric>

#include "harness/base/errors.h"

namespace gradsync::stats {

namespace {

// Clopper and Pearson's; `events` need not be whole.
Interval exact_interval(double events, double trials, double level) {
  using Binomial = boost::math::binomial_distribution<double>;
  const bool none = events <= 0;
  const bool all = events >= trials;
  const double tail = none || all ? 1 - level : (1 - level) / 2;
  return {none ? 0.0 : Binomial::find_lower_bound_on_p(trials, events, tail),
          all ? 1.0 : Binomial::find_upper_bound_on_p(trials, events, tail)};
}

}  // namespace

std::vector<double> holm_adjusted(const std::vector<double>& p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.size());
  double highest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double p = p_values[order[i]];
    GRADSYNC_CHECK(p, >=, 0.0);
    GRADSYNC_CHECK(p, <=, 1.0);
    const auto left = static_cast<double>(order.size() - i);
    highest = std::max(highest, std::min(1.0, left * p));
    adjusted[order[i]] = highest;
  }
  return adjusted;
}

Interval rate_interval(std::int64_t events, std::int64_t trials, double level) {
  GRADSYNC_CHECK(events, >=, std::int64_t{0});
  GRADSYNC_CHECK(events, <=, trials);
  GRADSYNC_CHECK(trials, >, std::int64_t{0});
  return exact_interval(static_cast<double>(events), static_cast<double>(trials), level);
}

Interval share_interval(const std::vector<double>& shares, double level) {
  GRADSYNC_CHECK(shares.size(), >, std::size_t{0});
  double sum = 0;
  for (const double share : shares) {
    GRADSYNC_CHECK(share, >=, 0.0);
    GRADSYNC_CHECK(share, <=, 1.0);
    sum += share;
  }
  return exact_interval(sum, static_cast<double>(shares.size()), level);
}

}  // namespace gradsync::stats
