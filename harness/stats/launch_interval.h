// How far a mean or a ratio of times could be off, from a few independent launches.
//
// Steps of one block share the state of the machine, and blocks of one launch share where memory
// and threads happened to land. Only launches show what another launch would change, so each counts
// as one value, its mean step, however many blocks and steps it has. With n of them the interval is
// Student's t at n - 1 degrees of freedom. Below three there is none: two values say next to
// nothing about how far a third may lie (t is 12.7), and a bootstrap of n values is worse than
// none, since it cannot reach beyond the smallest and the largest: 1 - 2^(1-n) of "95 %".
//
// A slowdown is a ratio of mean times, r = E a / E b. It is not averaged as a ratio: the question
// is how many seconds the one way costs for each second of the other. For the true r the mean of a
// - r b is 0, so the interval holds every r for which Student's t does not reject that (Fieller).
// It needs no logarithms and no approximation, and disturbances of a launch cancel in a - r b as
// far as they affect both equally.
//
// How often they hold the truth: with normal noise and a launch effect "95 %" are 93 to 97 % from
// three launches on; with lognormal noise, far more skewed than steps are (sigma 0.75: one launch
// in 40 takes four times as long as usual), 88 to 89 % of means (2,000 made cells for each of 3, 4
// and 8 launches: tests/harness/stats/launch_interval_test.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::stats {

// With fewer launches there is no interval.
inline constexpr std::size_t kFewestLaunches = 3;

inline constexpr double kUsualLevel = 0.95;

// The mean steps of two cells in one launch, in the same unit.
struct LaunchPair {
  double numerator = 0;
  double denominator = 0;
};

// Returns the mean of the launches' means, with equal weights, and its interval. Without launches
// the value is 0.
Estimate mean_of_launches(const std::vector<double>& launch_means, double level = kUsualLevel);

// Returns mean(numerator) / mean(denominator) over launches in which both ran, with Fieller's
// interval of pairs. Without pairs the value is 0. No end is below 0, where no time is.
// Errors: InternalError where a denominator is not positive.
// Source: Fieller, "Some Problems in Interval Estimation", 1954.
Estimate ratio_of_pairs(const std::vector<LaunchPair>& pairs, double level = kUsualLevel);

// Returns the same for two runs that did not take turns: the variance of mean(a) - r mean(b) is the
// sum of both, its degrees of freedom are Welch's at the estimated ratio, so that either run may
// vary as it likes. No interval where either has fewer than three launches.
// Errors: as ratio_of_pairs.
// Source: Welch, "The Generalization of 'Student's' Problem when Several Different Population
// Variances are Involved", 1947, with Fieller's argument.
Estimate ratio_of_independent(const std::vector<double>& numerator,
                              const std::vector<double>& denominator, double level = kUsualLevel);

}  // namespace gradsync::stats
