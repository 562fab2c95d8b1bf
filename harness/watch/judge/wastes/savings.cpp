#include "harness/watch/judge/wastes/savings.h"

#include <algorithm>
#include <cmath>

#include "harness/stats/sample.h"

namespace gradsync::watch {
namespace {

constexpr double kBucketsToFill = 8;

double mean_bytes(const std::vector<TimedReduction>& reductions) {
  double sum = 0;
  for (const TimedReduction& each : reductions) sum += static_cast<double>(each.bytes);
  return sum / static_cast<double>(reductions.size());
}

// Medians, each of its own.
struct Middle {
  double bytes = 0;
  double wire_s = 0;
};

Middle middle_of(const std::vector<TimedReduction>& reductions) {
  std::vector<double> bytes;
  std::vector<double> wires_s;
  for (const TimedReduction& each : reductions) {
    bytes.push_back(static_cast<double>(each.bytes));
    wires_s.push_back(each.wire_s);
  }
  return {stats::quantile(bytes, 0.5), stats::quantile(wires_s, 0.5)};
}

}  // namespace

std::int64_t bucket_bytes_for(std::int64_t gradient_bytes) {
  const auto mebibytes = static_cast<std::int64_t>(
      std::lround(static_cast<double>(gradient_bytes) / kBucketsToFill / kMebibyte));
  return std::clamp(mebibytes * kMebibyte, kMebibyte, kDefaultBucketBytes);
}

std::int64_t buckets_for(std::int64_t gradient_bytes) {
  const std::int64_t bucket = bucket_bytes_for(gradient_bytes);
  return std::max<std::int64_t>(1, (gradient_bytes + bucket - 1) / bucket);
}

double overlap_saves_s(double backward_s, double wire_s, double last_share) {
  return (1 - std::min(1.0, last_share)) * std::min(backward_s, wire_s);
}

std::optional<double> cost_of_each_s(const std::vector<TimedReduction>& reductions) {
  if (reductions.empty()) return std::nullopt;
  const double mean = mean_bytes(reductions);
  std::vector<TimedReduction> small;
  std::vector<TimedReduction> large;
  for (const TimedReduction& each : reductions) {
    (static_cast<double>(each.bytes) > mean ? large : small).push_back(each);
  }
  if (large.empty()) return std::nullopt;
  const Middle below = middle_of(small);
  const Middle above = middle_of(large);
  const double slope = std::max(0.0, (above.wire_s - below.wire_s) / (above.bytes - below.bytes));
  double rest_s = 0;
  for (const TimedReduction& each : reductions) {
    rest_s += each.wire_s - slope * static_cast<double>(each.bytes);
  }
  return std::max(0.0, rest_s / static_cast<double>(reductions.size()));
}

}  // namespace gradsync::watch
