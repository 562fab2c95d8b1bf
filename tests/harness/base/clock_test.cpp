#include "harness/base/clock.h"

#include <gtest/gtest.h>

#include <ctime>
#include <regex>

namespace gradsync {
namespace {

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock;
  const std::int64_t begin = clock.now_ns();
  EXPECT_EQ(clock.now_ns(), begin);
  clock.advance_ns(250);
  EXPECT_EQ(clock.now_ns(), begin + 250);
}

TEST(FakeClock, SleepingMovesItToTheDeadlineAndNeverBack) {
  FakeClock clock;
  const std::int64_t begin = clock.now_ns();
  clock.sleep_until_ns(begin + 1000);
  EXPECT_EQ(clock.now_ns(), begin + 1000);
  clock.sleep_until_ns(begin);
  EXPECT_EQ(clock.now_ns(), begin + 1000);
}

TEST(SteadyClock, NeverGoesBack) {
  std::int64_t previous = steady_clock().now_ns();
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t now = steady_clock().now_ns();
    ASSERT_GE(now, previous);
    previous = now;
  }
}

// Paced models rely on this: a layer that ends early would make a step shorter than the profile.
// The durations lie on both sides of the stretch that is spun through instead of slept.
TEST(SteadyClock, SleepNeverReturnsEarly) {
  for (const std::int64_t duration_ns : {1'000, 59'000, 61'000, 200'000, 3'000'000}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const std::int64_t deadline = steady_clock().now_ns() + duration_ns;
      steady_clock().sleep_until_ns(deadline);
      ASSERT_GE(steady_clock().now_ns(), deadline) << "slept for " << duration_ns << " ns";
    }
  }
}

TEST(SteadyClock, SleepReturnsAtOnceWhenTheDeadlineIsPast) {
  const std::int64_t begin = steady_clock().now_ns();
  steady_clock().sleep_until_ns(begin - nanoseconds(3600.0));
  steady_clock().sleep_until_ns(0);
  EXPECT_LT(seconds(steady_clock().now_ns() - begin), 60.0);
}

TEST(ThreadProcessorTime, GrowsWithWorkAndNotWithSleep) {
  constexpr std::int64_t kNapNs = 50'000'000;
  const std::int64_t begin = thread_processor_ns();
  const timespec nap{0, kNapNs};
  nanosleep(&nap, nullptr);
  const std::int64_t woken = thread_processor_ns();
  EXPECT_LT(woken - begin, kNapNs);
  while (thread_processor_ns() < woken + 1'000'000) {  // ends: this is the work
  }
}

TEST(Clock, SecondsAndNanosecondsAreInverse) {
  EXPECT_DOUBLE_EQ(seconds(1'500'000'000), 1.5);
  EXPECT_EQ(nanoseconds(0.0958), 95'800'000);
  EXPECT_EQ(nanoseconds(-1.0), -1'000'000'000);
}

TEST(UtcTimestamp, HasTheTwoDocumentedForms) {
  EXPECT_TRUE(std::regex_match(utc_timestamp(),
                               std::regex(R"(20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ)")));
  EXPECT_TRUE(std::regex_match(utc_timestamp(/*compact=*/true),
                               std::regex(R"(20\d\d[01]\d[0-3]\dT[0-2]\d[0-5]\d[0-6]\dZ)")));
}

}  // namespace
}  // namespace gradsync
