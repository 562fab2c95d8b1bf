#include "harness/stats/bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "harness/base/errors.h"
#include "harness/stats/random.h"
#include "harness/stats/sample.h"
#include "harness/stats/student.h"

namespace gradsync::stats {
namespace {

BlockSum& operator+=(BlockSum& left, const BlockSum& right) {
  left.sum += right.sum;
  left.count += right.count;
  return left;
}

template <typename Unit>
const Unit& draw(const std::vector<Unit>& units, Random& random) {
  return units[random.below(units.size())];
}

BlockSum total(const Launches& launches) {
  BlockSum all;
  for (const auto& launch : launches) {
    for (const BlockSum& block : launch) all += block;
  }
  return all;
}

// One launch is the whole population of launches: drawing it again and again changes nothing, which
// leaves exactly the bootstrap over its blocks.
double resampled_mean(const Launches& launches, Random& random) {
  BlockSum all;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto& launch = draw(launches, random);
    for (std::size_t j = 0; j < launch.size(); ++j) all += draw(launch, random);
  }
  return all.sum / all.count;
}

std::size_t resampled_units(const Launches& launches) {
  return launches.size() == 1 ? launches.front().size() : launches.size();
}

Resampled what_is_resampled(const Launches& launches) {
  return launches.size() == 1 ? Resampled::Blocks : Resampled::LaunchesThenBlocks;
}

Estimate nothing_measured() {
  Estimate estimate;
  estimate.no_interval_because = "nothing was measured";
  return estimate;
}

// `resample` returns the value once more, from units drawn anew.
Estimate with_interval(double value, std::size_t units, Resampled what,
                       const BootstrapOptions& options,
                       const std::function<double(Random&)>& resample) {
  Estimate estimate;
  estimate.value = value;
  if (units < 2) {
    estimate.no_interval_because = "one block in one launch: nothing to resample";
    return estimate;
  }
  Random random(options.seed);
  std::vector<double> values(static_cast<std::size_t>(options.resamples));
  for (double& resampled : values) resampled = resample(random);
  const double tail = expanded_tail(units);
  estimate.ci95 = Interval{quantile(values, tail), quantile(values, 1.0 - tail)};
  estimate.resampled = what;
  return estimate;
}

void check_positive(const Launches& launches) {
  for (const auto& launch : launches) {
    for (const BlockSum& block : launch) GRADSYNC_CHECK(block.sum, >, 0.0);
  }
}

Launches without_empty(const Launches& launches) {
  Launches kept;
  for (const auto& launch : launches) {
    if (!launch.empty()) kept.push_back(launch);
  }
  return kept;
}

}  // namespace

BlockSum block_sum(const std::vector<double>& values) {
  return {std::accumulate(values.begin(), values.end(), 0.0), static_cast<double>(values.size())};
}

double expanded_tail(std::size_t units) {
  GRADSYNC_CHECK(units, >=, std::size_t{2});
  const auto k = static_cast<double>(units);
  const double z = std::sqrt(k / (k - 1)) * student_t(k - 1, 0.95);
  return boost::math::cdf(boost::math::normal(), -z);
}

Estimate bootstrap_mean(const Launches& all_launches, const BootstrapOptions& options) {
  const Launches launches = without_empty(all_launches);
  const BlockSum all = total(launches);
  if (all.count == 0) return nothing_measured();
  return with_interval(all.sum / all.count, resampled_units(launches), what_is_resampled(launches),
                       options, [&](Random& random) { return resampled_mean(launches, random); });
}

Estimate bootstrap_ratio(const Launches& all_numerator, const Launches& all_denominator,
                         const BootstrapOptions& options) {
  const Launches numerator = without_empty(all_numerator);
  const Launches denominator = without_empty(all_denominator);
  const BlockSum above = total(numerator);
  const BlockSum below = total(denominator);
  if (above.count == 0 || below.count == 0) return nothing_measured();
  check_positive(denominator);
  return with_interval((above.sum / above.count) / (below.sum / below.count),
                       std::min(resampled_units(numerator), resampled_units(denominator)),
                       std::min(what_is_resampled(numerator), what_is_resampled(denominator)),
                       options, [&](Random& random) {
                         const double mean_above = resampled_mean(numerator, random);
                         return mean_above / resampled_mean(denominator, random);
                       });
}

}  // namespace gradsync::stats
