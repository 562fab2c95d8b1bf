// What a handful of numbers says by itself: mean, median, spread, quantiles.
//
// No assumption is made about the source of the numbers; launch_interval.h treats whether they are
// independent. Pure functions, any unit in, the same unit out.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace gradsync::stats {

struct Summary {
  std::size_t n = 0;
  double mean = 0;
  double median = 0;
  std::optional<double> sd;  // sample deviation, divisor n - 1; unset for a single value
  double min = 0;
  double max = 0;
};

// Returns the summary of `values`, or nothing where there are none.
// Errors: InternalError where a value is not finite.
std::optional<Summary> summarize(const std::vector<double>& values);

// Returns the arithmetic mean. `values` must not be empty.
double mean(const std::vector<double>& values);

// Returns the p-quantile, 0 <= p <= 1, by linear interpolation between order statistics at position
// (n - 1) p. `values` need not be sorted and must not be empty.
// Source: rule 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996: the default
// of R and NumPy, so that a reader who recomputes it gets the same digits.
double quantile(std::vector<double> values, double p);

// Returns the shift of the differences: the Hodges-Lehmann estimate, the median of the means of all
// pairs of them (each also with itself), deaf to an outlier. `differences` must not be empty. Cost:
// n^2 log n for n of them. Source: Hollander, Wolfe and Chicken, "Nonparametric Statistical
// Methods", 2014, section 3.2.
double hodges_lehmann(const std::vector<double>& differences);

}  // namespace gradsync::stats
