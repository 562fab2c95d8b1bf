#include "harness/stats/random.h"

#include <gmock/gmock.h>

#include <vector>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

TEST(Random, TheSameSeedGivesTheSameNumbersEverywhere) {
  // The C++ standard fixes mt19937_64's 10000th number from its default seed 5489:
  // 9981545732273789042. A bound of 10^19 keeps it whole, since it divides none of it away.
  Random random(5489);
  std::uint64_t drawn = 0;
  int accepted = 0;
  std::mt19937_64 engine(5489);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t raw = engine();
    if (raw < 8446744073709551616U) continue;  // 2^64 mod 10^19: what must be rejected
    ++accepted;
    drawn = random.below(10000000000000000000U);
    ASSERT_EQ(drawn, raw % 10000000000000000000U);
  }
  EXPECT_EQ(drawn, 9981545732273789042U);
  EXPECT_GT(accepted, 5000);
}

TEST(Random, EveryResultIsEquallyLikely) {
  Random random(1);
  std::vector<int> seen(6);
  for (int i = 0; i < 60000; ++i) ++seen[random.below(6)];
  // 10000 expected, standard deviation 91; five of them.
  for (const int count : seen) EXPECT_NEAR(count, 10000, 460);
}

TEST(Random, RefusesAnEmptyRange) {
  Random random(1);
  EXPECT_THROW(random.below(0), InternalError);
}

}  // namespace
}  // namespace gradsync::stats
