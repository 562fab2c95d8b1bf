#include "harness/stats/signed_rank.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

// Twice the rank of each distance, so that the mean rank of a tie is whole. In the order of
// `distances`, which are not negative.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& distances) {
  std::vector<std::size_t> order(distances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  std::vector<std::size_t> ranks(distances.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && distances[order[end]] == distances[order[first]]) ++end;
    // Ranks first + 1 to end have the mean (first + 1 + end) / 2.
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = first + 1 + end;
    first = end;
  }
  return ranks;
}

// The probability of each sum of the values that come with a fair coin's heads, from 0 on; none is
// 0.
std::vector<double> coin_sums(const std::vector<std::size_t>& values) {
  std::vector<double> probability(std::accumulate(values.begin(), values.end(), std::size_t{1}),
                                  0.0);
  probability[0] = 1.0;
  std::size_t largest = 0;
  for (const std::size_t value : values) {
    largest += value;
    for (std::size_t sum = largest; sum >= value; --sum) {
      probability[sum] = (probability[sum] + probability[sum - value]) / 2;
    }
    for (std::size_t sum = 0; sum < value; ++sum) probability[sum] /= 2;
  }
  return probability;
}

// Sorted.
std::vector<double> pairwise_means(const std::vector<double>& values) {
  std::vector<double> means;
  means.reserve(values.size() * (values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  return means;
}

double median_of_sorted(const std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double signed_rank_p(const std::vector<double>& differences, double margin) {
  std::vector<double> distances;
  for (const double difference : differences) {
    GRADSYNC_CHECK(std::isfinite(difference), ==, true);
    distances.push_back(std::abs(difference - margin));
  }
  const std::vector<std::size_t> all_ranks = doubled_ranks(distances);
  std::vector<std::size_t> ranks;
  std::size_t positive = 0;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    if (distances[i] == 0) continue;
    ranks.push_back(all_ranks[i]);
    if (differences[i] > margin) positive += all_ranks[i];
  }
  const std::vector<double> probability = coin_sums(ranks);
  return std::accumulate(probability.begin() + static_cast<std::ptrdiff_t>(positive),
                         probability.end(), 0.0);
}

double hodges_lehmann_value(const std::vector<double>& differences) {
  GRADSYNC_CHECK(differences.size(), >, std::size_t{0});
  return median_of_sorted(pairwise_means(differences));
}

Shift hodges_lehmann(const std::vector<double>& differences, double level) {
  GRADSYNC_CHECK(differences.size(), >, std::size_t{0});
  GRADSYNC_CHECK(level, >, 0.0);
  GRADSYNC_CHECK(level, <, 1.0);
  const std::vector<double> means = pairwise_means(differences);
  Shift shift{median_of_sorted(means), std::nullopt};

  // Without ties the sum of positive ranks about m is the number of these means above m. So the
  // k-th of them bounds the margins whose sum has a probability above the tail.
  std::vector<std::size_t> ranks(differences.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{1});
  const std::vector<double> probability = coin_sums(ranks);
  std::size_t outside = 0;  // means to leave out at either end
  double tail = probability[0];
  while (tail <= (1 - level) / 2 && 2 * (outside + 1) <= means.size()) {
    ++outside;
    tail += probability[outside];
  }
  if (outside > 0) shift.interval = Interval{means[outside - 1], means[means.size() - outside]};
  return shift;
}

}  // namespace gradsync::stats
