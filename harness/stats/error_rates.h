// Keeps several tests at one error rate, and turns a count of errors into an interval of the rate.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::stats {

// Returns the p-values, adjusted for the number of tests: if those of at most alpha count as
// significant, the probability of any false alarm is at most alpha, however the tests depend on
// each other. In the order given. Errors: InternalError for a value outside of [0, 1].
// Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979.
std::vector<double> holm_adjusted(const std::vector<double>& p_values);

// Returns the exact interval of a rate of which `events` were seen in `trials`: at each end, seeing
// this few, or this many, events has probability (1 - level) / 2. One-sided if no or all trials
// were events: the other end is then 0 or 1, and the whole 1 - level is on its side. Errors:
// InternalError unless 0 <= events <= trials and trials > 0.
// Source: Clopper and Pearson, 1934; Boost.Math's beta distribution.
Interval rate_interval(std::int64_t events, std::int64_t trials, double level = 0.95);

// Returns the interval of the mean of independent shares, each between 0 and 1: what
// rate_interval() returns for sum(shares) events in as many trials as there are shares, by the same
// formulas, which do not require whole numbers. If all shares are 0 or 1, it is the same interval.
// Other shares vary less than coins of the same mean, so it then covers more often than `level`. It
// assumes nothing about the distribution of shares; Student's t would take shares that are all 0
// for certainty. Errors: InternalError without shares, or for one outside [0, 1].
Interval share_interval(const std::vector<double>& shares, double level = 0.95);

}  // namespace gradsync::stats
