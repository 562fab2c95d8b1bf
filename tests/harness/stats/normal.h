// Normal noise that is the same on every machine, for tests of statistics.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "harness/stats/random.h"

namespace gradsync::test {

// Draws from the normal distribution of mean 0 and deviation 1.
// Source: Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : random_(seed) {}
  double operator()() {
    constexpr std::uint64_t kParts = std::uint64_t{1} << 53;
    const double radius = std::sqrt(-2 * std::log((random_.below(kParts) + 1.0) / kParts));
    return radius * std::cos(2 * std::numbers::pi * random_.below(kParts) / kParts);
  }

 private:
  stats::Random random_;
};

}  // namespace gradsync::test
