// What overlap and bucketing would save of a step. Pure functions of times and sizes.
//
// Overlap: DDP reduces a bucket as soon as all its gradients are there, while backward goes on. Let
// gradients come evenly over a backward of B seconds, fill n equal buckets one after the other, and
// let the wire take W seconds for all of them. One after the other, that takes B + W. Bucket by
// bucket it takes
//
//   B + W / n    where W <= B: the last bucket alone is reduced when backward has ended
//   B / n + W    where W > B: the wire has no rest from the first bucket on
//
// which is (1 - 1 / n) min(B, W) less. A bucket is no smaller than the largest tensor, so that
// instead of 1 / n stands the share of the larger of both. It is as much as can be saved: where
// threads of the host do the reducing, as gloo's, backward is slower beside them.
//
// Bucketing: of k collectives each costs something however small it is. In n buckets that is paid
// n times.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gradsync::watch {

inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
inline constexpr std::int64_t kDefaultBucketBytes = 25 * kMebibyte;  // of torch's DDP

// Returns the size that buckets of gradients of so many bytes should have, in whole MiB: an eighth,
// so that an eighth of the wire's time is left behind backward; no more than DDP has by itself, and
// no less than 1 MiB, of which a collective is more than what it costs at least.
std::int64_t bucket_bytes_for(std::int64_t gradient_bytes);

// Returns how many such buckets these gradients fill, 1 or more.
std::int64_t buckets_for(std::int64_t gradient_bytes);

// Returns the seconds saved by overlap, as above.   `last_share`: of the bytes, that of the bucket
// which is complete last.
double overlap_saves_s(double backward_s, double wire_s, double last_share);

struct TimedReduction {
  std::int64_t bytes = 0;
  double wire_s = 0;  // without waiting for others, of this rank or of another one
};

// Returns the seconds that a collective takes however small it is: where a line through their times
// over their sizes begins. Its slope joins the medians of those above and below the mean size,
// which a few that took too long do not move (a resistant line, after Tukey, "Exploratory Data
// Analysis", 1977); the times that it gives add up to those that there were. Nothing where all are
// of one size.
std::optional<double> cost_of_each_s(const std::vector<TimedReduction>& reductions);

}  // namespace gradsync::watch
