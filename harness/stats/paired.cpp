#include "harness/stats/paired.h"

#include <cmath>
#include <map>

#include "harness/base/errors.h"

namespace gradsync::stats {

Estimate paired_ratio(const std::vector<Pair>& pairs, const BootstrapOptions& options) {
  Estimate estimate;
  if (pairs.empty()) {
    estimate.no_interval_because = "no round in which both ran";
    return estimate;
  }
  std::map<int, std::vector<BlockSum>> by_launch;
  for (const Pair& pair : pairs) {
    GRADSYNC_CHECK(pair.numerator, >, 0.0);
    GRADSYNC_CHECK(pair.denominator, >, 0.0);
    by_launch[pair.launch].push_back({std::log(pair.numerator / pair.denominator), 1.0});
  }
  Launches launches;
  for (auto& [launch, blocks] : by_launch) launches.push_back(std::move(blocks));
  estimate = bootstrap_mean(launches, options);
  estimate.value = std::exp(estimate.value);
  if (estimate.ci95)
    estimate.ci95 = Interval{std::exp(estimate.ci95->lo), std::exp(estimate.ci95->hi)};
  if (!estimate.ci95) estimate.no_interval_because = "one pair: nothing to resample";
  return estimate;
}

}  // namespace gradsync::stats
