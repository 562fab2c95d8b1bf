#include "harness/account/sketch.h"

#include <algorithm>
#include <cmath>

namespace gradsync::account {
namespace {

// Half of them for rows, half for places in a row.
constexpr std::uint64_t kRowSeed = 0x5851F42D4C957F2DULL;
constexpr std::uint64_t kPlaceSeed = 0x14057B7EF767814FULL;

// A murmur-like mix of 31 bits, so that Python's tensors of 64-bit integers do it too.
int sign_of(std::uint64_t number, std::uint64_t seed) {
  constexpr std::uint64_t kMask = 0x7FFFFFFFULL;
  std::uint64_t x = (number ^ seed) & kMask;
  x = ((x ^ (x >> 15)) * 0x2C1B3C6DULL) & kMask;
  x = ((x ^ (x >> 12)) * 0x297A2D39ULL) & kMask;
  x ^= x >> 15;
  return (x & 1) != 0 ? 1 : -1;
}

}  // namespace

int sketch_sign(std::int64_t index) {
  return sign_of(static_cast<std::uint64_t>(index / kSketchRow), kRowSeed) *
         sign_of(static_cast<std::uint64_t>(index % kSketchRow), kPlaceSeed);
}

Sketch sketch_of(std::span<const double> elements, std::int64_t offset) {
  Sketch sketch{};
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto index = offset + static_cast<std::int64_t>(i);
    sketch[static_cast<std::size_t>(index) % kSketchBuckets] += sketch_sign(index) * elements[i];
  }
  return sketch;
}

void add(Sketch& sum, const Sketch& more) {
  for (std::size_t b = 0; b < kSketchBuckets; ++b) sum[b] += more[b];
}

double squared_length(const Sketch& sketch) {
  return squared_distance(sketch, Sketch{});
}

double squared_distance(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kSketchBuckets; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

bool is_finite(const Sketch& sketch) {
  return std::ranges::all_of(sketch, [](double value) { return std::isfinite(value); });
}

}  // namespace gradsync::account
