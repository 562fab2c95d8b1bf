// Many variances, each estimated from a few values: their common level improves each estimate.
//
// A variance with 4 degrees of freedom may be three times too small by chance. A test that divides
// by its root then finds effects that do not exist, or must be so strict that it finds none. With
// several variances, their differences beyond chance say how far they may be taken as one: fully if
// there are none, not at all if the variances differ wildly.
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

// Returns each of `variances` moved towards their common level, with the degrees of freedom that it
// has gained; these are never more than all have together. In the order given; a single one stays
// as it is. A value below 1e-5 of the median counts as that much, because its logarithm is taken;
// they stay as they are where the median is 0.
// Errors: InternalError where a value is negative or degrees are not positive.
std::vector<Variance> moderated_variances(std::vector<Variance> variances);

}  // namespace gradsync::stats
