#include "harness/stats/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/errors.h"

namespace gradsync::stats {

double mean(const std::vector<double>& values) {
  GRADSYNC_CHECK(values.size(), >, std::size_t{0});
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double p) {
  GRADSYNC_CHECK(values.size(), >, std::size_t{0});
  GRADSYNC_CHECK(p, >=, 0.0);
  GRADSYNC_CHECK(p, <=, 1.0);
  std::ranges::sort(values);
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return values[below] + fraction * (values[above] - values[below]);
}

double hodges_lehmann(const std::vector<double>& differences) {
  GRADSYNC_CHECK(differences.size(), >, std::size_t{0});
  std::vector<double> means;
  means.reserve(differences.size() * (differences.size() + 1) / 2);
  for (std::size_t i = 0; i < differences.size(); ++i) {
    for (std::size_t j = i; j < differences.size(); ++j) {
      means.push_back((differences[i] + differences[j]) / 2);
    }
  }
  std::ranges::sort(means);
  const std::size_t middle = means.size() / 2;
  return means.size() % 2 == 1 ? means[middle] : (means[middle - 1] + means[middle]) / 2;
}

std::optional<Summary> summarize(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  for (const double value : values) GRADSYNC_CHECK(std::isfinite(value), ==, true);
  Summary summary;
  summary.n = values.size();
  summary.mean = mean(values);
  summary.median = quantile(values, 0.5);
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  summary.min = *min;
  summary.max = *max;
  if (values.size() > 1) {
    // Two passes: subtracting the mean first keeps the digits that a sum of squares would lose.
    double squares = 0;
    for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
    summary.sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
  return summary;
}

}  // namespace gradsync::stats
