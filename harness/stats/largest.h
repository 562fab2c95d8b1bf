// How far the slowest of several lies above their mean.
#pragma once

namespace gradsync::stats {

// Returns the expected largest of `count` independent standard normal values: 0 for one, 0.564 for
// two, 1.42 for eight.   Errors: InternalError unless count > 0.
// By the trapezoidal rule on the density of the largest, to 1e-9.
double expected_largest_normal(int count);

}  // namespace gradsync::stats
