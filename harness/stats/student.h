// What a few independent values of a normal distribution say about their mean, by Student's t, and
// how far the largest of them lies above it.
//
// Such values are published numbers, of which only three runs exist, launches of a plan
// (stats/launch_interval.h), and whole starts of a gate's ranks. The steps of one launch are not.
#pragma once

#include <optional>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::stats {

// Returns the value that |t| exceeds with probability 1 - level, for `degrees` > 0 of freedom
// (level 0.95, 2 degrees: 4.303).   Source: Boost.Math's students_t.
double student_t(double degrees, double level);

// Returns the probability of a value above `t`, for `degrees` > 0 of freedom; `t` may be infinite.
double student_tail(double degrees, double t);

// Returns mean ± t s / sqrt(n) over independent `runs`, or nothing for fewer than two.
std::optional<Interval> student_interval(const std::vector<double>& runs, double level = 0.95);

// Returns the expected largest of `count` independent standard normal values: 0 for one, 0.564 for
// two, 1.42 for eight.   Errors: InternalError unless count > 0.
// By the trapezoidal rule on the density of the largest, to 1e-9.
double expected_largest_normal(int count);

}  // namespace gradsync::stats
