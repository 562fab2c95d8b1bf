// Random integers that are the same on every machine and compiler for the same seed.
//
// The C++ standard fixes the output of std::mt19937_64 but not that of its distributions; so only
// the raw output is used here, and two people who resample the same results get the same interval.
#pragma once

#include <cstdint>
#include <random>

#include "harness/base/errors.h"

namespace gradsync::stats {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // Returns an integer in [0, bound), every one equally likely. `bound` must be positive.
  // Cost: one draw of 64 bits; a second one with probability below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    GRADSYNC_CHECK(bound, >, std::uint64_t{0});
    // 2^64 is no multiple of most bounds: draws from the last, incomplete stretch would favour the
    // small results, so they are thrown away. `incomplete` is 2^64 mod bound.
    const std::uint64_t incomplete = (~bound + 1) % bound;
    for (;;) {
      const std::uint64_t draw = engine_();
      if (draw >= incomplete) return draw % bound;
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gradsync::stats
