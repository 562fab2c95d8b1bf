// How far a mean could be off, when steps come in blocks and blocks come in launches.
//
// Steps of one block share the machine's mood, and blocks of one launch share where memory and
// threads happened to land. Treating all steps as independent makes intervals several times too
// short. So: resample whole launches, then whole blocks inside each, and see how the mean moves
// (a two-level bootstrap; Davison and Hinkley, "Bootstrap Methods and their Application", 1997,
// section 3.8). With one launch only blocks can vary, and the estimate says so.
//
// A bootstrap over k units is too short by about sqrt((k - 1) / k) and knows no t distribution:
// with four launches a plain 95 % percentile interval holds the truth in 78 % of simulated cases.
// Hence the percentiles are moved outwards to where they would meet Student's t for normal data
// (the "expanded percentile" of Hesterberg, "What Teachers Should Know About the Bootstrap", 2015):
// 90 % with four launches, 95 % with six. More launches are the only real remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::stats {

// What one block contributes to a mean: the sum of its values, and how many they are.
struct BlockSum {
  double sum = 0;
  double count = 0;
};
using Launches = std::vector<std::vector<BlockSum>>;  // [launch][block]

struct BootstrapOptions {
  int resamples = 4000;     // more: steadier bounds (at 4000 they move by about 1 % of the width)
  std::uint64_t seed = 42;  // the same seed gives the same interval on every machine
};

// Returns the block of these values.
BlockSum block_sum(const std::vector<double>& values);

// Returns sum / count over everything, with its 95 % interval.
// The interval is absent for a single block, and for none where every launch is empty (value 0).
// Cost: resamples x blocks random numbers.
Estimate bootstrap_mean(const Launches& launches, const BootstrapOptions& options = {});

// Returns mean(numerator) / mean(denominator) of two runs that did not take turns, with its 95 %
// interval: each is resampled by itself, in its own launches and blocks, and the ratio taken anew.
// The run with fewer units says how far the percentiles move outwards, which errs on the wide side.
// `resampled` is LaunchesThenBlocks only where both have several launches. The interval is absent
// where either is a single block; the value is 0 where either is empty.
// Errors: InternalError where a value of the denominator is not positive.
Estimate bootstrap_ratio(const Launches& numerator, const Launches& denominator,
                         const BootstrapOptions& options = {});

// Returns the probability below which the lower end of a 95 % percentile interval is read, when
// `units` >= 2 were resampled: Phi(-sqrt(k / (k - 1)) t), t = Student's at k - 1 degrees.
double expanded_tail(std::size_t units);

}  // namespace gradsync::stats
