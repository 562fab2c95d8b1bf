#include "harness/stats/random.h"

#include "harness/base/errors.h"

namespace gradsync::stats {

std::uint64_t Random::below(std::uint64_t bound) {
  GRADSYNC_CHECK(bound, >, std::uint64_t{0});
  // 2^64 is no multiple of most bounds: draws from the last, incomplete stretch would favour the
  // small results, so they are thrown away. `incomplete` is 2^64 mod bound.
  const std::uint64_t incomplete = (~bound + 1) % bound;
  for (;;) {
    const std::uint64_t draw = engine_();
    if (draw >= incomplete) return draw % bound;
  }
}

}  // namespace gradsync::stats
