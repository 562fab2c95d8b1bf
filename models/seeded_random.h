// Numbers drawn from a seed, the same ones with every standard library: raw engine output only,
// since std's distributions differ between libraries. No torch.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace gradsync::models {

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(uniform() * static_cast<double>(limit));
  }
  // Box and Muller's transform.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * M_PI * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gradsync::models
