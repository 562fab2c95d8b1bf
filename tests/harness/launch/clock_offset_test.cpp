#include "harness/launch/clock_offset.h"

#include <gtest/gtest.h>

namespace gradsync::launch {
namespace {

// A round trip that starts at `at_ns` with these two ways, to a clock `offset_ns` ahead of ours.
Ping ping(std::int64_t at_ns, std::int64_t out_ns, std::int64_t back_ns, std::int64_t offset_ns) {
  return {at_ns, at_ns + out_ns + back_ns, at_ns + out_ns + offset_ns};
}

TEST(ClockOffset, TheShortestRoundTripDecides) {
  constexpr std::int64_t kOffset = 5'000'000'000;
  const ClockOffset offset = offset_of(
      {ping(0, 900, 100, kOffset), ping(5000, 50, 50, kOffset), ping(9000, 100, 2000, kOffset)});
  EXPECT_EQ(offset.offset_ns, kOffset);
  EXPECT_EQ(offset.error_ns, 50);
  EXPECT_EQ(offset.at_ns, 5050);
}

TEST(ClockOffset, TheTruthIsWithinTheBoundHoweverUnevenTheWays) {
  for (const std::int64_t out_ns : {0, 1, 300, 999, 1000}) {
    for (const std::int64_t truth_ns : {-7'000'000, 0, 123'456'789}) {
      const ClockOffset offset = offset_of({ping(77, out_ns, 1000 - out_ns, truth_ns)});
      EXPECT_LE(std::abs(offset.offset_ns - truth_ns), offset.error_ns);
    }
  }
}

TEST(DescribeClock, DriftIsTheMovementOverTheTimeBetween) {
  // 10 us in 100 s: one ten-millionth.
  const auto told = describe_clock({0, 1'000'000, 200}, {100'000'000'000, 1'010'000, 300});
  EXPECT_NEAR(told.drift.value().value(), 1e-7, 1e-15);
  EXPECT_NEAR(told.drift_error.value().value(), 5e-9, 1e-15);
  EXPECT_NEAR(told.offset_s.value(), 1.005e-3, 1e-12);
  // Half the movement and the worse of the two errors: holds from the first moment to the last.
  EXPECT_NEAR(told.error_s.value(), 5e-6 + 300e-9, 1e-12);
}

TEST(DescribeClock, NoTimeBetweenNoDrift) {
  const auto told = describe_clock({5, 1, 1}, {5, 1, 1});
  EXPECT_TRUE(nlohmann::json(told).at("drift").is_null());
  EXPECT_TRUE(nlohmann::json(told).at("drift_error").is_null());
}

}  // namespace
}  // namespace gradsync::launch
