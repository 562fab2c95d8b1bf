#include "harness/summary/rank_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/stats/sample.h"

namespace gradsync::summary {
namespace {

using results::RunningStatistics;
using results::StatisticsSpread;

// As a layer adds to a variance before it divides by its root: a channel that is always the same
// has none.
constexpr double kEpsilon = 1e-5;

using Statistics = std::vector<const RunningStatistics*>;

std::vector<double> on_every_rank(const Statistics& ranks,
                                  std::vector<double> RunningStatistics::*field,
                                  std::size_t channel) {
  std::vector<double> values;
  for (const RunningStatistics* rank : ranks) values.push_back((rank->*field).at(channel));
  return values;
}

void widen(StatisticsSpread& spread, const std::vector<double>& means,
           const std::vector<double>& variances) {
  const auto [lowest, highest] = std::ranges::minmax(means);
  const auto [least, most] = std::ranges::minmax(variances);
  const double deviation = std::sqrt(stats::mean(variances) + kEpsilon);
  spread.mean_gap = std::max(spread.mean_gap, (highest - lowest) / deviation);
  spread.variance_ratio = std::max(spread.variance_ratio, (most + kEpsilon) / (least + kEpsilon));
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

std::optional<StatisticsSpread> statistics_spread(const results::TrialRecord& trial) {
  Statistics ranks;
  for (const results::RankRecord& rank : trial.ranks) {
    if (rank.running_statistics) ranks.push_back(&*rank.running_statistics);
  }
  if (ranks.size() < 2) return std::nullopt;
  const std::size_t channels = ranks.front()->mean.size();
  for (const RunningStatistics* rank : ranks) {
    if (rank->mean.size() != channels || rank->variance.size() != channels) return std::nullopt;
    if (!all_finite(rank->mean) || !all_finite(rank->variance)) return std::nullopt;
  }
  StatisticsSpread spread;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    widen(spread, on_every_rank(ranks, &RunningStatistics::mean, channel),
          on_every_rank(ranks, &RunningStatistics::variance, channel));
  }
  return spread;
}

}  // namespace gradsync::summary
