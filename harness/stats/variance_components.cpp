#include "harness/stats/variance_components.h"

#include <algorithm>

#include "harness/stats/sample.h"

namespace gradsync::stats {
namespace {

double square(double value) {
  return value * value;
}

}  // namespace

VarianceComponents variance_components(const std::vector<std::vector<double>>& groups) {
  std::vector<double> all;
  double squared_sizes = 0;
  double count = 0;
  for (const auto& group : groups) {
    all.insert(all.end(), group.begin(), group.end());
    squared_sizes += square(static_cast<double>(group.size()));
    count += group.empty() ? 0 : 1;
  }
  const auto n = static_cast<double>(all.size());
  VarianceComponents components;
  if (n <= count) return components;
  double within = 0;
  double between = 0;
  const double overall = mean(all);
  for (const auto& group : groups) {
    if (group.empty()) continue;
    const double level = mean(group);
    for (const double value : group) within += square(value - level);
    between += static_cast<double>(group.size()) * square(level - overall);
  }
  components.within = within / (n - count);
  if (count < 2) return components;
  const double size = (n - squared_sizes / n) / (count - 1);
  components.between = std::max(0.0, (between / (count - 1) - *components.within) / size);
  return components;
}

}  // namespace gradsync::stats
