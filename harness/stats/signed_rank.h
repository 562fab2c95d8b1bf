// Wilcoxon's signed-rank test: do paired differences lie above a margin?
//
// The two of a pair took turns on the same cores, so what disturbs both cancels in their
// difference. Under the null hypothesis a difference is as likely above the margin as below it by
// the same amount. Then every way to give signs to the ranks of the distances is equally likely,
// and the p-value is the share of those ways that look at least as bad: exact, without normality,
// and an outlier weighs no more than its rank.
//
// Source: Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition, 2014,
// sections 3.1 to 3.3. Ties share the mean of their ranks and the share is counted over those, so
// it stays exact; what lies on the margin is ranked and then left out (Pratt, 1959).
#pragma once

#include <optional>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::stats {

// Returns the probability, under symmetry about `margin`, of a sum of positive ranks at least as
// high as that of `differences`: small where they lie above the margin; 1 without differences.
// Cost: n^3 additions for n of them.   Errors: InternalError where a value is not finite.
double signed_rank_p(const std::vector<double>& differences, double margin = 0);

// By how much values are shifted, and how far that could be off.
struct Shift {
  double value = 0;
  std::optional<Interval> interval;  // absent where there are too few differences for its level
};

// Returns the Hodges-Lehmann estimate, the median of the means of all pairs of differences (each
// also with itself), and the interval of the margins that signed_rank_p refuses in neither
// direction at (1 - level) / 2. Needs at least one difference; n^2 log n for n of them.
Shift hodges_lehmann(const std::vector<double>& differences, double level = 0.95);

// Returns the estimate alone, which costs less.
double hodges_lehmann_value(const std::vector<double>& differences);

}  // namespace gradsync::stats
