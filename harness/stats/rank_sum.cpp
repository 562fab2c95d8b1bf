#include "harness/stats/rank_sum.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

// How the samples interleave.
struct Ranking {
  double u = 0;         // pairs in which `sample` is higher; half for each that is equal
  double tie_term = 0;  // the sum of t^3 - t over groups of t equal values
};

struct Value {
  double value;
  bool in_sample;
};

std::vector<Value> sorted_together(const std::vector<double>& sample,
                                   const std::vector<double>& reference) {
  std::vector<Value> values;
  values.reserve(sample.size() + reference.size());
  for (const double value : sample) values.push_back({value, true});
  for (const double value : reference) values.push_back({value, false});
  for (const Value& value : values) GRADSYNC_CHECK(std::isfinite(value.value), ==, true);
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return a.value < b.value; });
  return values;
}

Ranking rank(const std::vector<Value>& values) {
  Ranking ranking;
  double below = 0;  // values of the reference before this group
  for (std::size_t first = 0; first < values.size();) {
    std::size_t end = first;
    double of_sample = 0;
    while (end < values.size() && values[end].value == values[first].value) {
      of_sample += values[end++].in_sample ? 1 : 0;
    }
    const auto tied = static_cast<double>(end - first);
    ranking.u += of_sample * (below + (tied - of_sample) / 2);
    ranking.tie_term += tied * tied * tied - tied;
    below += tied - of_sample;
    first = end;
  }
  return ranking;
}

// The share of the ways to choose n of the ranks 1 to n + m in which at least `u` pairs are won.
double exact_tail(std::size_t n, std::size_t m, std::size_t u) {
  // ways[k][s]: to choose k of the ranks seen so far so that s pairs are won. Whoever takes rank r
  // as the k-th from below wins against the r - k lower ranks that were left.
  std::vector<std::vector<double>> ways(n + 1, std::vector<double>(n * m + 1, 0.0));
  ways[0][0] = 1;
  for (std::size_t r = 1; r <= n + m; ++r) {
    for (std::size_t k = std::min(r, n); k >= 1; --k) {
      const std::size_t won = r - k;
      if (won > m) break;
      for (std::size_t s = won; s <= n * m; ++s) ways[k][s] += ways[k - 1][s - won];
    }
  }
  const auto from = ways[n].begin() + static_cast<std::ptrdiff_t>(u);
  const double all = std::accumulate(ways[n].begin(), ways[n].end(), 0.0);
  return std::accumulate(from, ways[n].end(), 0.0) / all;
}

double normal_tail(double n, double m, const Ranking& ranking) {
  const double all = n + m;
  const double variance = n * m / 12 * (all + 1 - ranking.tie_term / (all * (all - 1)));
  if (variance <= 0) return 1;  // every value is the same
  const double z = (ranking.u - n * m / 2 - 0.5) / std::sqrt(variance);
  return boost::math::cdf(boost::math::complement(boost::math::normal(), z));
}

}  // namespace

double rank_sum_p(const std::vector<double>& sample, const std::vector<double>& reference) {
  if (sample.empty() || reference.empty()) return 1;
  const Ranking ranking = rank(sorted_together(sample, reference));
  const bool small = std::max(sample.size(), reference.size()) < kExactRankSum;
  if (small && ranking.tie_term == 0) {
    return exact_tail(sample.size(), reference.size(), static_cast<std::size_t>(ranking.u));
  }
  return normal_tail(static_cast<double>(sample.size()), static_cast<double>(reference.size()),
                     ranking);
}

}  // namespace gradsync::stats
