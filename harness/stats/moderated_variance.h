// Many variances, each known from a few values: what they have in common makes each better known.
//
// A variance with 4 degrees of freedom may be three times too small by chance, and whoever divides
// by its root finds effects that are not there, or has to ask for so much that nothing is found.
// Where there are several, how much they differ beyond what chance makes of one variance says how
// far they may be taken as one: fully where they do not, not at all where they differ wildly.
//
// Source: Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential Expression
// in Microarray Experiments", 2004, sections 5 and 6.2, as the R package limma computes it.
#pragma once

#include <vector>

namespace gradsync::stats {

// An estimate of a variance, and how many degrees of freedom it has, which need not be whole.
struct Variance {
  double value = 0;
  double degrees = 0;
};

// Returns each of `variances` moved towards what all have in common, with the degrees of freedom
// that it has gained; these are never more than all together have. In the order given; a single one
// stays as it is. A value below 1e-5 of the median counts as that much, because its logarithm is
// taken; they stay as they are where the median is 0.
// Errors: InternalError where a value is negative or degrees are not positive.
std::vector<Variance> moderated_variances(std::vector<Variance> variances);

}  // namespace gradsync::stats
