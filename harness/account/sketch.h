// A fixed random linear map from gradients of any size to 64 numbers: a count sketch.
//
// Element i of a parameter adds to bucket i mod 64, with the sign
//
//   sign(i) = high(i div 4096) * low(i mod 4096)
//
// of two hashes with one fixed seed, the same on every rank and host. So the map is linear,
// sketches of two parts of a parameter add up to that of the whole (a shard is sketched from its
// place in it), and it runs at the speed of memory: rows of 4096 elements are folded by the signs
// of the rows, and what is left is 4096 numbers. gradsync_watch_sketch.py has the same map.
//
// What a sketch keeps: E[sum_b S(x)_b S(y)_b] = <x, y>, with a relative standard deviation of the
// order of sqrt(2/64) = 18 % for one parameter's length and less for several parameters together.
// That deviation is no error of the account: where the gradient that is read IS a sum of
// contributions, so is its sketch, exactly (account.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gradsync::account {

inline constexpr std::size_t kSketchBuckets = 64;
inline constexpr std::int64_t kSketchRow = 4096;

using Sketch = std::array<double, kSketchBuckets>;

// Returns the sign of element `index` of a parameter, 1 or -1.
int sketch_sign(std::int64_t index);

// Returns the sketch of the elements of a parameter from `offset` on. The others count as 0.
Sketch sketch_of(std::span<const double> elements, std::int64_t offset = 0);

void add(Sketch& sum, const Sketch& more);
double squared_length(const Sketch& sketch);
double squared_distance(const Sketch& a, const Sketch& b);
bool is_finite(const Sketch& sketch);

}  // namespace gradsync::account
