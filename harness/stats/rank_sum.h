// Mann and Whitney's U test, also known as Wilcoxon's rank-sum test: does one sample lie higher?
//
// Nothing is paired and every value is taken as independent of every other: all values of both
// samples are ranked together, and the p-value is the share of the ways to deal the ranks out that
// look at least as bad. Steps of one block are not independent of each other, so the gate does not
// decide by this test. It is here because others do (gate/habits.h).
//
// Source: Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition, 2014,
// section 4.1: the exact distribution, and the normal approximation with its correction for ties.
#pragma once

#include <cstddef>
#include <vector>

namespace gradsync::stats {

// Samples of fewer values than this each, without ties, get the exact distribution; others the
// normal approximation, corrected for ties and by 1/2 for continuity. R's wilcox.test has the same
// rule. Larger: the exact distribution costs the fourth power.
inline constexpr std::size_t kExactRankSum = 50;

// Returns the probability, if both samples came from one distribution, of a rank sum of `sample` at
// least as high as it is: small where `sample` lies above `reference`; 1 where either is empty.
// Errors: InternalError where a value is not finite.
double rank_sum_p(const std::vector<double>& sample, const std::vector<double>& reference);

}  // namespace gradsync::stats
