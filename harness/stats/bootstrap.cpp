#include "harness/stats/bootstrap.h"

#include <boost/math/distributions/normal.hpp>
#include <cmath>
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
  Estimate estimate;
  const BlockSum all = total(launches);
  if (all.count == 0) {
    estimate.no_interval_because = "nothing was measured";
    return estimate;
  }
  estimate.value = all.sum / all.count;
  const bool one_launch = launches.size() == 1;
  const std::size_t units = one_launch ? launches.front().size() : launches.size();
  if (units < 2) {
    estimate.no_interval_because = "one block in one launch: nothing to resample";
    return estimate;
  }
  Random random(options.seed);
  std::vector<double> means(static_cast<std::size_t>(options.resamples));
  for (double& mean : means) mean = resampled_mean(launches, random);
  const double tail = expanded_tail(units);
  estimate.ci95 = Interval{quantile(means, tail), quantile(means, 1.0 - tail)};
  estimate.resampled = one_launch ? Resampled::Blocks : Resampled::LaunchesThenBlocks;
  return estimate;
}

}  // namespace gradsync::stats
